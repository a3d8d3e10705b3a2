"""The header that the kernel's pktgen puts at the start of its UDP payload, as a layer of scapy.

``struct pktgen_hdr`` of net/core/pktgen.c: four big-endian words. Imported by `frames` alone, with scapy.
"""

from __future__ import annotations

from scapy.fields import IntField, XIntField
from scapy.packet import Packet

PKTGEN_MAGIC = 0xBE9BE955


class Pktgen(Packet):
    """Magic, sequence number, and time stamp; the time stamp is 0, for frames are built before the run."""

    name = "pktgen"
    fields_desc = [  # noqa: RUF012 - scapy's metaclass wants a list
        XIntField("pgh_magic", PKTGEN_MAGIC),
        IntField("seq_num", 0),
        IntField("tv_sec", 0),
        IntField("tv_usec", 0),
    ]
