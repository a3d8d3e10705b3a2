"""Settings that live in files, one a device or one a queue: BQL, NAPI, XPS, RPS, interrupts' CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from labkit.errors import SettingRefusedError
from labkit.linux import queues
from labkit.nic.knob import Knob, whole_number
from labkit.records import Scalar

Form: TypeAlias = Literal["number", "truth", "mask", "text"]
TRUTHS: Final = {"0": False, "1": True}
APART = ";"


class FilesKnob:
    """One value in one file, or in the same file of every queue.

    Queues that differ read as one text, ``0;100``, and take such a text back: so they can be put back.

    Parameters
    ----------
    name : str
        Name of the setting.
    paths : sequence of Path
        Its files, at least one.
    form : str
        How the kernel writes the value; a ``mask`` is given and told as a CPU list.
    where : str
        Whose setting it is, for messages.
    """

    resets_link = False

    def __init__(self, name: str, paths: Sequence[Path], form: Form, where: str = "") -> None:
        self.name, self._what = name, f"{where}: {name}" if where else name
        self._paths = tuple(paths)
        self._form = form

    def read(self) -> Scalar:
        """Value of all files; None where one of them is not there."""
        found: list[Scalar] = []
        for path in self._paths:
            word = queues.read_word(path)
            if word is None:
                return None
            found.append(self._value(word))
        return found[0] if len(set(found)) == 1 else APART.join(str(value) for value in found)

    def write(self, value: Scalar) -> None:
        """Write one value to all files, or one of each to its own."""
        parts: Sequence[Scalar] = (value,)
        if isinstance(value, str) and APART in value:
            parts = [int(part) if part.isdecimal() else part for part in value.split(APART)]
        if len(parts) not in {1, len(self._paths)}:
            raise SettingRefusedError(
                f"{self._what} {value!r} has {len(parts)} values for {len(self._paths)} "
                f"queues; give one for all, or as many as there are queues"
            )
        words = [self._word(part) for part in parts]
        for path, word in zip(self._paths, words * (len(self._paths) // len(words)), strict=True):
            queues.write_word(path, word, self._what)

    def _value(self, word: str) -> Scalar:
        if self._form == "number":
            return int(word)
        if self._form == "truth":
            return TRUTHS.get(word, word)  # newer kernels have a third word for threaded: busy polling
        return queues.cpus_of_mask(word) if self._form == "mask" else word

    def _word(self, value: Scalar) -> str:
        if self._form == "number":
            return str(whole_number(self._what, "value", value))
        if self._form == "truth":
            return str(int(value)) if isinstance(value, bool) else str(value)
        return queues.mask_of_cpus(str(value)) if self._form == "mask" else str(value)


def queue_knobs(
    name: str, *, sys: Path = queues.SYS, proc: Path = queues.PROC, interrupts: Sequence[int] | None = None
) -> dict[str, Knob]:
    """Every knob whose files link `name` has below `sys` and `proc`.

    Parameters
    ----------
    interrupts : sequence of int or None
        Whose CPUs ``irq_affinity`` turns; None takes all that the device signals by message.
    """
    if interrupts is None:
        interrupts = queues.device_interrupts(name, sys)
    affinities = [queues.affinity_file(number, proc) for number in interrupts]
    bql = "byte_queue_limits"
    found: list[tuple[str, list[Path], Form]] = [
        ("bql_limit_min", queues.queue_files(name, "tx", f"{bql}/limit_min", sys), "number"),
        ("bql_limit_max", queues.queue_files(name, "tx", f"{bql}/limit_max", sys), "number"),
        ("napi_defer_hard_irqs", queues.device_file(name, "napi_defer_hard_irqs", sys), "number"),
        ("gro_flush_timeout_ns", queues.device_file(name, "gro_flush_timeout", sys), "number"),
        ("threaded", queues.device_file(name, "threaded", sys), "truth"),
        ("xps_cpus", queues.queue_files(name, "tx", "xps_cpus", sys), "mask"),
        ("rps_cpus", queues.queue_files(name, "rx", "rps_cpus", sys), "mask"),
        ("irq_affinity", [path for path in affinities if path.exists()], "text"),
    ]
    return {setting: FilesKnob(setting, paths, form, name) for setting, paths, form in found if paths}
