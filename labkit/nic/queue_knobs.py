"""Settings that live in files, one a device or one a queue: BQL, NAPI, XPS, RPS, interrupts' CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from labkit.errors import CapabilityMissingError, SettingRefusedError
from labkit.factors import Scalar
from labkit.linux import queues
from labkit.linux.interfaces import Interface
from labkit.linux.queues import APART
from labkit.nic.knob import Knob, whole_number

Form: TypeAlias = Literal["number", "truth", "mask", "text"]
TRUTHS: Final = {"0": False, "1": True}


class FilesKnob:
    """One value in one file, or in the same file of every queue.

    Queues that differ read as one text, ``0;100``, and take such a text back: so they can be put back.

    Parameters
    ----------
    name : str
        Name of the setting.
    paths : sequence of Path, or callable
        Its files, at least one; asked anew at each use where queues come and go, or names change.
    form : str
        How the kernel writes the value; a ``mask`` is given and told as a CPU list.
    where : str
        Whose setting it is, for messages.
    """

    resets_link = False

    def __init__(
        self, name: str, paths: Sequence[Path] | Callable[[], Sequence[Path]], form: Form, where: str = ""
    ) -> None:
        self.name, self._what = name, f"{where}: {name}" if where else name
        self._find = paths if callable(paths) else lambda: paths
        self._form = form

    def read(self) -> Scalar:
        """Value of all files; None where one of them is not there."""
        paths = self._find()
        value = self._read(paths)
        if value is None and (now := self._find()) != paths:  # renamed between the two
            return self._read(now)
        return value

    def write(self, value: Scalar) -> None:
        """Write one value to all files, or one of each to its own."""
        paths = self._find()
        try:
            self._write(paths, value)
        except CapabilityMissingError:
            if (now := self._find()) == paths:
                raise
            self._write(now, value)

    def _read(self, paths: Sequence[Path]) -> Scalar:
        found: list[Scalar] = []
        for path in paths:
            word = queues.read_word(path)
            if word is None:
                return None
            found.append(self._value(word))
        if not found:
            return None
        return found[0] if len(set(found)) == 1 else APART.join(str(value) for value in found)

    def _write(self, paths: Sequence[Path], value: Scalar) -> None:
        parts: Sequence[Scalar] = (value,)
        if isinstance(value, str) and APART in value:
            parts = [int(part) if part.isdecimal() else part for part in value.split(APART)]
        if not paths:
            raise CapabilityMissingError(f"{self._what}: no queue has it now; leave it out")
        if len(parts) not in {1, len(paths)}:
            raise SettingRefusedError(
                f"{self._what} {value!r} has {len(parts)} values for {len(paths)} "
                f"queues; give one for all, or as many as there are queues"
            )
        words = [self._word(part) for part in parts]
        for path, word in zip(paths, words * (len(paths) // len(words)), strict=True):
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


class LeastLimitKnob(FilesKnob):
    """``bql_limit_min``: lowered, it lets go of a limit that it held up.

    The kernel keeps such a limit until the queue has been busy for hold_time (lib/dynamic_queue_limits.c),
    and one of gigabytes would limit nothing in the runs to come. So the limit starts again from the new
    least one, as that of a new queue starts from 0.
    """

    def write(self, value: Scalar) -> None:
        """Write the least limit, and where the limit stood at a higher one before, the limit too."""
        before = {path: queues.read_word(path) for path in self._find()}
        super().write(value)
        for path, held in before.items():
            limit, least = path.with_name("limit"), queues.read_word(path)
            held_up = held is not None and queues.read_word(limit) == held
            if held_up and least is not None and int(least) < int(held or 0):
                queues.write_word(limit, least, self._what)


def queue_knobs(
    interface: Interface,
    *,
    sys: Path = queues.SYS,
    proc: Path = queues.PROC,
    interrupts: Callable[[], Sequence[int]] = tuple,
) -> dict[str, Knob]:
    """Every knob whose files the interface has below `sys` and `proc`.

    Parameters
    ----------
    interrupts : callable
        Tells whose CPUs ``irq_affinity`` turns.
    """
    name = interface.name

    def of_device(file: str) -> Sequence[Path]:
        return [queues.device_file(interface.name, file, sys)]

    def of_queues(direction: str, file: str) -> Sequence[Path]:
        return queues.queue_files(interface.name, direction, file, sys)

    def of_interrupts() -> Sequence[Path]:
        files = (queues.affinity_file(number, proc) for number in interrupts())
        return [path for path in files if path.exists()]

    bql = "byte_queue_limits"
    found: list[tuple[str, Callable[[], Sequence[Path]], Form]] = [
        ("bql_limit_min", partial(of_queues, "tx", f"{bql}/limit_min"), "number"),
        ("bql_limit_max", partial(of_queues, "tx", f"{bql}/limit_max"), "number"),
        ("xps_cpus", partial(of_queues, "tx", "xps_cpus"), "mask"),
        ("rps_cpus", partial(of_queues, "rx", "rps_cpus"), "mask"),
        ("napi_defer_hard_irqs", partial(of_device, "napi_defer_hard_irqs"), "number"),
        ("gro_flush_timeout_ns", partial(of_device, "gro_flush_timeout"), "number"),
        ("threaded", partial(of_device, "threaded"), "truth"),
        ("irq_affinity", of_interrupts, "text"),
    ]
    kinds = {"bql_limit_min": LeastLimitKnob}
    return {
        setting: kinds.get(setting, FilesKnob)(setting, paths, form, name)
        for setting, paths, form in found
        if any(path.exists() for path in paths())
    }
