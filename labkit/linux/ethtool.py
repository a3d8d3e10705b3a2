"""Rings, coalescing, channels, pause, features and standard statistics of a device over ethtool's netlink.

A client of its own, on pyroute2's message classes: pyroute2's reads coalescing, channels and features by
ioctl, where the kernel says no word about a refusal. This one keeps those words and the attribute they are
about, sends exactly what was asked, and waits a bounded time. What netlink does not have goes by ioctl: the
driver's name, moderation of single queues, and (`labkit.linux.links`) a driver's own statistics.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from labkit.errors import CapabilityMissingError, LabError, SettingRefusedError
from labkit.factors import BY_QUEUE_SETTINGS, BY_QUEUE_SUFFIX, Scalar
from labkit.linux import ethtool_ioctl, ethtool_profiles, ethtool_statistics
from labkit.linux import ethtool_messages as messages
from labkit.linux.ethtool_messages import CHANNELS, COALESCE, PAUSE, RINGS, Group
from labkit.linux.ethtool_queues import QueueModeration
from labkit.linux.ethtool_socket import EthtoolSocket, NetlinkSocket, open_socket

QUEUE_GIVEN_BACK_S: Final = 0.5
QUEUE_STEP_S: Final = 0.005


class Ethtool:
    """Asks devices of the namespace in which it was made, by interface index.

    What a driver does not report is None. Every request raises `CapabilityMissingError` for what the device,
    kernel or user lacks, `SettingRefusedError` for a value that was refused, and `LabError` for a missing
    device, with the kernel's errno and words.

    Parameters
    ----------
    socket_factory : callable
        Opens the socket; tests hand in one that answers by itself.
    ioctl, interface_name : callable
        What goes by ioctl over that socket; tests hand in those too.
    """

    def __init__(
        self,
        socket_factory: Callable[[], NetlinkSocket] = open_socket,
        *,
        ioctl: ethtool_ioctl.Exchange = ethtool_ioctl.exchange,
        interface_name: Callable[[int, int], str] = ethtool_ioctl.interface_name,
    ) -> None:
        self._socket = EthtoolSocket(socket_factory, ioctl, interface_name)
        self._strings: dict[int, tuple[str, ...]] = {}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def rings(self, ifindex: int) -> dict[str, Scalar]:
        """Ring sizes in descriptors, and what else belongs to rings."""
        return messages.settings_of(RINGS, self._read(RINGS, ifindex))

    def ring_maxima(self, ifindex: int) -> dict[str, int]:
        """Largest values that the driver tells; a setting without one is absent."""
        return messages.maxima_of(RINGS, self._read(RINGS, ifindex))

    def set_rings(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the rings that are named."""
        self._write(RINGS, ifindex, settings)

    def coalesce(self, ifindex: int) -> dict[str, Scalar]:
        """Interrupt moderation: times in microseconds, counts in frames."""
        return messages.settings_of(COALESCE, self._read(COALESCE, ifindex))

    def set_coalesce(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the moderation values that are named."""
        for name in ethtool_profiles.PROFILES:
            if name in settings:
                current = self.coalesce(ifindex)[name]
                ethtool_profiles.check_steps(
                    name, str(settings[name]), None if current is None else str(current)
                )
        self._write(COALESCE, ifindex, settings)

    def channels(self, ifindex: int) -> dict[str, Scalar]:
        """Queues in use; `channels` are those for both directions."""
        return messages.settings_of(CHANNELS, self._read(CHANNELS, ifindex))

    def channel_maxima(self, ifindex: int) -> dict[str, int]:
        """Most queues that the device has; a kind of which it has none is absent."""
        return messages.maxima_of(CHANNELS, self._read(CHANNELS, ifindex))

    def set_channels(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the numbers of queues that are named.

        A queue stays bound for a while after its AF_XDP socket was closed (kernel: xp_release_deferred), and
        until then the kernel refuses to take it away: that is waited for.
        """
        deadline = time.monotonic() + QUEUE_GIVEN_BACK_S
        while not self._took_channels(ifindex, settings, last_try=time.monotonic() > deadline):
            time.sleep(QUEUE_STEP_S)

    def _took_channels(self, ifindex: int, settings: Mapping[str, Scalar], *, last_try: bool) -> bool:
        try:
            self._write(CHANNELS, ifindex, settings)
        except SettingRefusedError as refused:
            if last_try or "AF_XDP" not in (refused.kernel_text or ""):
                raise
            return False
        return True

    def pause(self, ifindex: int) -> dict[str, Scalar]:
        """Ethernet flow control."""
        return messages.settings_of(PAUSE, self._read(PAUSE, ifindex))

    def set_pause(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the flow control switches that are named."""
        self._write(PAUSE, ifindex, settings)

    def features(self, ifindex: int) -> dict[str, Scalar]:
        """Offloads that are active; a short word that stands for several is on when one of them is."""
        active = self._feature_sets(ifindex)["active"]
        words = messages.feature_words(self._features())
        return {word: not active.isdisjoint(group) for word, group in words.items()}

    def changeable_features(self, ifindex: int) -> frozenset[str]:
        """Offloads that the driver lets one turn; all others are fixed."""
        turnable = self._turnable(ifindex)
        words = messages.feature_words(self._features())
        return frozenset(word for word, group in words.items() if not turnable.isdisjoint(group))

    def set_features(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Turn the offloads that are named.

        The kernel says yes even where it then leaves a feature off because another one is missing; only
        reading back tells.
        """
        turnable = self._turnable(ifindex) if settings else frozenset()
        bits = [bit for word, value in settings.items() for bit in self._bits(ifindex, word, value, turnable)]
        if bits:
            wanted = ("wanted", {"attrs": [("bits", {"attrs": bits})]})
            message = messages.request(
                messages.Features, messages.FEATURES_SET, ifindex, [wanted], messages.OMIT_REPLY
            )
            self._socket.ask(message, _asked(settings), ifindex, writing=True)

    def driver_info(self, name: str) -> ethtool_ioctl.DriverInfo:
        """What the driver of interface `name` says of itself."""
        request = ethtool_ioctl.driver_info_request()
        answer = self._socket.exchange("driver information", name, request, writing=False)
        return ethtool_ioctl.driver_info_of(answer)

    def coalesce_by_queue(self, ifindex: int) -> dict[str, Scalar]:
        """Moderation of single queues (`labkit.records.BY_QUEUE_SETTINGS`), one text for all queues."""
        try:
            found = self._queues(ifindex, "coalescing of single queues", writing=False).read()
        except LabError as refused:
            if refused.errno != errno.EINVAL:
                raise
            return dict.fromkeys(BY_QUEUE_SETTINGS)  # queues that are not there while the device is down
        told = self.coalesce(ifindex)
        return {
            name: None if told[name.removesuffix(BY_QUEUE_SUFFIX)] is None else value
            for name, value in found.items()
        }

    def set_coalesce_by_queue(self, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        """Change the settings that are named, on the queues where they differ."""
        self._queues(ifindex, _asked(settings), writing=True).write(settings)

    def standard_statistics(self, ifindex: int) -> dict[str, int]:
        """Counters alike in every driver, such as ``eth-mac/FramesTransmittedOK``; empty without any."""
        command, wanted = ethtool_statistics.STATISTICS_GET, [ethtool_statistics.WANTED]
        message = messages.request(ethtool_statistics.Statistics, command, ifindex, wanted)
        try:
            answer = self._socket.ask(message, "standard statistics", ifindex, writing=False)
        except CapabilityMissingError:
            return {}
        return ethtool_statistics.counts_of(answer, self._names)

    def _queues(self, ifindex: int, what: str, *, writing: bool) -> QueueModeration:
        try:
            told = self.channels(ifindex)
        except CapabilityMissingError:  # then there is one queue, and its refusal is the one of interest
            told = {"channels": 1}
        counts = {name: int(told.get(name) or 0) for name in ("channels", "rx_channels", "tx_channels")}

        def ask(data: bytes) -> bytes:
            return self._socket.exchange(what, ifindex, data, writing=writing)

        shared = counts["channels"]
        return QueueModeration(ask, rx=shared + counts["rx_channels"], tx=shared + counts["tx_channels"])

    def _read(self, group: Group, ifindex: int) -> dict[str, Any]:
        """Every attribute that the kernel gives and our tables know."""
        message = messages.request(group.message, group.read_command, ifindex)
        answer = self._socket.ask(message, group.title, ifindex, writing=False)
        return {slot[0]: slot[1] for slot in answer["attrs"] if slot[0] != "UNKNOWN"}

    def _write(self, group: Group, ifindex: int, settings: Mapping[str, Scalar]) -> None:
        attributes = [(name, messages.sent_of(group, name, value)) for name, value in settings.items()]
        if attributes:
            message = messages.request(group.message, group.write_command, ifindex, attributes)
            self._socket.ask(message, _asked(settings), ifindex, writing=True)

    def _features(self) -> tuple[str, ...]:
        """The kernel's names of all features, by bit."""
        return self._names(messages.FEATURE_STRINGS)

    def _names(self, strings: int) -> tuple[str, ...]:
        """One of the kernel's sets of names; asked once, for it cannot change while it runs."""
        if strings not in self._strings:
            wanted = {"attrs": [("set", {"attrs": [("id", strings)]})]}
            message = messages.request(messages.Strings, messages.STRINGS_GET, None, [("sets", wanted)])
            answer = self._socket.ask(message, "names of features and counters", writing=False)
            found = answer.get_attr("sets").get_attr("set").get_attr("strings").get_attrs("string")
            self._strings[strings] = tuple(str(text.get_attr("value") or "") for text in found)
        return self._strings[strings]

    def _turnable(self, ifindex: int) -> frozenset[str]:
        sets = self._feature_sets(ifindex)
        return sets["hw"] - sets["nochange"]

    def _bits(
        self, ifindex: int, word: str, value: Scalar, turnable: frozenset[str]
    ) -> list[tuple[str, Any]]:
        """What is sent for one feature word: those features behind it that the driver lets one turn."""
        words = messages.feature_words(self._features())
        if word not in words:
            known = ", ".join(sorted(words))
            where = self._socket.called(ifindex)
            raise CapabilityMissingError(f"{where}: no feature {word!r} here; there are {known}")
        names = [name for name in words[word] if name in turnable]
        if not names:
            where = self._socket.called(ifindex)
            raise CapabilityMissingError(f"{where}: {word} is fixed by the driver; leave it out")
        on = [("value", True)] if messages.switch(word, value) else []
        return [("bit", {"attrs": [("name", name), *on]}) for name in names]

    def _feature_sets(self, ifindex: int) -> dict[str, frozenset[str]]:
        flags = messages.COMPACT_BITSETS
        message = messages.request(messages.Features, messages.FEATURES_GET, ifindex, flags=flags)
        answer = self._socket.ask(message, "features", ifindex, writing=False)
        return {
            name: messages.names_on(answer.get_attr(name), self._features())
            for name in ("hw", "active", "nochange")
        }


def _asked(settings: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
