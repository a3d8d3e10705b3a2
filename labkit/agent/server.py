"""Answers the client's messages one after the other until the stream ends."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from labkit.agent.channel import Channel, Closed
from labkit.agent.device import DeviceHost, StateFolders
from labkit.agent.guest import GuestHost
from labkit.agent.host import Host
from labkit.agent.leftovers import forget_device, restore_all
from labkit.agent.protocol import (
    PROTOCOL_VERSION,
    AllRestored,
    Applied,
    Apply,
    Done,
    Failed,
    Forget,
    Hello,
    Load,
    Look,
    Message,
    Open,
    OpenDevice,
    OpenGuest,
    Preview,
    Restore,
    RestoreAll,
    Run,
    Stop,
    Told,
    Welcome,
)
from labkit.agent.runner import run_once
from labkit.agent.veth import VethHost
from labkit.errors import LabError, WorkloadError
from labkit.linux.kernel_log import KernelLog
from labkit.traffic.table import FrameTable


class Server:
    """One client's session.

    Parameters
    ----------
    channel : Channel
        The stream to the client.
    log : KernelLog
        Opened before any namespace was entered.
    folders : StateFolders
        Where journal and locks of host devices live.
    """

    def __init__(self, channel: Channel, log: KernelLog, folders: StateFolders) -> None:
        self._channel = channel
        self._log = log
        self._host: Host | None = None
        self._folders = folders
        self._frames: FrameTable | None = None
        self._answers: dict[type[Message], Callable[..., Message | None]] = {
            Hello: self._hello,
            Open: self._open,
            OpenDevice: self._open_device,
            OpenGuest: self._open_guest,
            RestoreAll: lambda _: AllRestored(results=restore_all(self._folders)),
            Forget: lambda asked: AllRestored(results=forget_device(self._folders, asked.device)),
            Preview: lambda asked: Told(lines=[self._rig().preview(asked.settings)]),
            Look: lambda asked: self._rig().look(asked.sink),
            Load: self._load,
            Apply: lambda asked: Applied(accepted=self._rig().apply(asked.settings)),
            Restore: self._restore,
            Run: self._run,
            Stop: lambda _: None,  # the run that it meant has ended
        }

    def serve(self) -> None:
        """Answer until the client closes the stream; then give everything back.

        Raises
        ------
        LabError
            What arrived is not of this protocol: where the next message begins is unknown then.
        """
        try:
            while True:
                asked = self._channel.receive()
                if asked is not None:
                    self._answer(asked)
        except Closed:
            pass
        finally:
            if self._host is not None:
                self._host.close()

    def _answer(self, asked: Message) -> None:
        try:
            answer = self._answers[type(asked)](asked)
        except LabError as refused:
            answer = Failed(
                kind=type(refused).__name__,
                message=refused.message,
                errno=refused.errno,
                kernel_text=refused.kernel_text,
            )
        except OSError as refused:
            what = f"{type(asked).__name__} in the agent: {refused.strerror or refused}"
            answer = Failed(kind="LabError", message=what, errno=refused.errno, kernel_text=None)
        if answer is not None:
            self._channel.send(msgspec.structs.replace(answer, number=asked.number))

    def _hello(self, asked: Hello) -> Message:
        if asked.version != PROTOCOL_VERSION:
            raise LabError(
                f"agent speaks protocol {PROTOCOL_VERSION}, the client {asked.version}: restart the "
                f"notebook's kernel after an update of labkit"
            )
        return Welcome(version=PROTOCOL_VERSION, pid=os.getpid())

    def _open(self, asked: Open) -> Message:
        if self._host is not None:
            raise LabError("agent: the rig is open already")
        host = VethHost(force_user_namespace=asked.force_user_namespace)
        self._host = host
        host.build(peer_carrier=asked.peer_carrier)
        if asked.settings:
            host.apply(asked.settings)
            host.forget_originals()
        return host.look("stack")

    def _open_device(self, asked: OpenDevice) -> Message:
        if self._host is not None:
            raise LabError("agent: a rig is open already")
        self._host = DeviceHost(
            asked.name,
            port=asked.port,
            i_know=asked.i_know,
            look_only=asked.look_only,
            ssh_connection=asked.ssh_connection,
            folders=self._folders,
        )
        return self._host.look("port" if asked.port else "wire")

    def _open_guest(self, _: OpenGuest) -> Message:
        if self._host is not None:
            raise LabError("agent: a rig is open already")
        self._host = GuestHost(self._folders)
        return self._host.look("port")

    def _load(self, asked: Load) -> Message:
        try:
            self._frames = FrameTable(asked.block, asked.offsets, asked.lengths)
        except ValueError as odd:
            raise WorkloadError(f"agent: {odd}") from odd
        return Done()

    def _restore(self, asked: Restore) -> Message:
        if asked.level < 0:
            raise WorkloadError(f"agent: level {asked.level}: changes are numbered from 0")
        return Done(notes=self._rig().restore(asked.level))

    def _run(self, asked: Run) -> Message:
        if self._frames is None:
            raise LabError("agent: no frames were loaded before the run")
        return run_once(self._channel, self._rig(), self._frames, asked, self._log)

    def _rig(self) -> Host:
        if self._host is None:
            raise LabError("agent: the rig is not open")
        return self._host
