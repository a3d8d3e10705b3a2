"""Which frames a device takes, from the frames alone. Standard library only: the agent may ask too."""

from __future__ import annotations

from labkit.errors import WorkloadError
from labkit.records import Frames
from labkit.units import ETHERNET_HEADER_BYTES, VLAN_TAG_BYTES

TAG_8021Q = b"\x81\x00"


def longest_legal_bytes(mtu: int, frame: bytes) -> int:
    """Longest frame in bytes that Linux sends with the tags of `frame` at `mtu`.

    MTU + 14, and 4 more when the first tag is an 802.1Q one (type 0x8100), whatever it holds: packet sockets
    look at that type alone (net/packet/af_packet.c, packet_extra_vlan_len_allowed). An 802.1ad tag (0x88a8)
    gets nothing more, and no second tag does. Measured on a veth pair of Linux 6.18: at MTU 1500 frames of
    1518 bytes leave with 8100 and 8100 8100, with 88a8 and 88a8 8100 those of 1514 are the longest.
    """
    return mtu + ETHERNET_HEADER_BYTES + (VLAN_TAG_BYTES if _extended(frame) else 0)


def check_frames(frames: Frames, mtu: int) -> None:
    """Refuse frames that a device of `mtu` bytes would refuse.

    Raises
    ------
    WorkloadError
        A frame is shorter than an Ethernet header, or longer than `longest_legal_bytes`.
    """
    if not len(frames):
        raise WorkloadError("no frames: an empty flow cannot be sent; give at least one")
    if frames.shortest_bytes < ETHERNET_HEADER_BYTES:
        raise WorkloadError(
            f"frame of {frames.shortest_bytes} bytes is shorter than an Ethernet header; "
            f"the shortest legal frame is {ETHERNET_HEADER_BYTES} bytes"
        )
    # only frames beyond the untagged limit need a look at their tags
    if frames.longest_bytes <= mtu + ETHERNET_HEADER_BYTES:
        return
    for index, size in enumerate(memoryview(frames.lengths).cast("I")):
        if size > mtu + ETHERNET_HEADER_BYTES:
            _check_frame(frames.frame(index), index, mtu)


def _check_frame(frame: bytes, index: int, mtu: int) -> None:
    legal_bytes = longest_legal_bytes(mtu, frame)
    if len(frame) > legal_bytes:
        tagged = " with its 802.1Q tag" if _extended(frame) else ""
        raise WorkloadError(
            f"frame {index} has {len(frame)} bytes{tagged}; at MTU {mtu} the largest legal frame has "
            f"{legal_bytes} bytes: shorten the frame, or raise the MTU where it can be raised"
        )


def _extended(frame: bytes) -> bool:
    return frame[12:14] == TAG_8021Q
