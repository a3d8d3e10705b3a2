"""A flow as text: what `labkit craft` prints."""

from __future__ import annotations

from typing import Any

from labkit.records import Traffic
from labkit.traffic.sizes import mean_wire_bytes, sizes_text

BYTES_A_LINE = 16


def craft_text(flow: Traffic, frames: int = 1) -> str:
    """Summary of the flow, its fields layer by layer, and a hex dump of its first `frames` frames."""
    said, table = flow.describe(), flow.table()
    lines = [
        said["packet"],
        f"{len(table)} frames of {sizes_text(said, flow.frame_bytes)} "
        f"({mean_wire_bytes(said, flow.frame_bytes):.5g} on the wire)"
        + ("" if said["seed"] is None else f", seed {said['seed']}"),
    ]
    lines += [
        f"{layer['layer']}: " + "  ".join(_pair(*item) for item in layer["fields"].items())
        for layer in said["layers"]
    ]
    lines += [f"{name} varies: {_one_line(values)}" for name, values in said["vary"].items()]
    for index in range(min(frames, len(table))):
        lines += [f"frame {index}", hex_dump(table.frame(index))]
    return "\n".join(lines)


def hex_dump(data: bytes) -> str:
    """Offset, hex and printable ASCII of `data`, sixteen bytes a line."""
    return "\n".join(
        f"{start:04x}  {line.hex(' '):<{3 * BYTES_A_LINE - 1}}  {_printable(line)}"
        for start in range(0, len(data), BYTES_A_LINE)
        if (line := data[start : start + BYTES_A_LINE])
    )


def _printable(line: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)


def _pair(name: str, value: Any) -> str:
    return f"{name}={_one_line(value) if isinstance(value, dict) else value}"


def _one_line(values: dict[str, Any]) -> str:
    return " ".join(f"{name} {value}" for name, value in values.items() if value is not None)
