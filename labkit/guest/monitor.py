"""QEMU's monitor (QMP, docs/interop/qmp-spec): stops the guest's clock and lets it go on."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from labkit.errors import LabError

ANSWER_WITHIN_S: Final = 10.0
"""QEMU answers between two instructions of the guest, also of one that hangs."""


class Monitor:
    """Commands without arguments, one at a time.

    Commands are numbered: the answer to one that was interrupted (Ctrl-C), or came too late, is passed over.

    Parameters
    ----------
    line : socket.socket
        Connected to QEMU; closed with this.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._line.settimeout(ANSWER_WITHIN_S)
        self._rest = b""
        self._greeted = False
        self._number = 0

    def ask(self, command: str) -> dict[str, Any]:
        """Do `command` and return what it answers.

        Raises
        ------
        LabError
            QEMU refuses it, is gone, or does not answer in time.
        """
        if not self._greeted:
            self._next()  # the greeting
            self._greeted = True
            self.ask("qmp_capabilities")
        self._number = number = self._number + 1
        try:
            self._line.sendall(json.dumps({"execute": command, "id": number}).encode() + b"\n")
        except OSError as gone:
            raise LabError("QEMU's monitor: QEMU has ended", errno=gone.errno) from gone
        while (answer := self._next()).get("id") != number:
            pass
        if "error" in answer:
            raise LabError(f"QEMU's monitor refuses {command}: {answer['error'].get('desc')}")
        found: dict[str, Any] = answer["return"]
        return found

    def close(self) -> None:
        """Close the line; harmless twice."""
        self._line.close()

    def _next(self) -> dict[str, Any]:
        """Next message; events are among them. Nothing is what an interrupt has torn."""
        while b"\n" not in self._rest:
            try:
                piece = self._line.recv(65536)
            except TimeoutError as late:
                raise LabError(f"QEMU's monitor: no answer within {ANSWER_WITHIN_S:g} s") from late
            except OSError as gone:
                raise LabError("QEMU's monitor: QEMU has ended", errno=gone.errno) from gone
            if not piece:
                raise LabError("QEMU's monitor: QEMU has ended")
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            return {}
        return found
