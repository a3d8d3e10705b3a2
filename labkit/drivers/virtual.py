"""Devices without a wire of their own: virtio_net, vmxnet3, ena in clouds, veth, tap."""

from __future__ import annotations

from typing import Final

from labkit.drivers.facts import GAUGES, DriverFacts
from labkit.drivers.interrupt_names import ENA as ENA_NAMES
from labkit.drivers.interrupt_names import VIRTIO as VIRTIO_NAMES
from labkit.drivers.interrupt_names import VMXNET3 as VMXNET3_NAMES
from labkit.drivers.values import ValueFacts

MTU: Final = frozenset({"mtu"})
"""Drivers here do nothing but note another MTU (no ndo_change_mtu, or one that only checks it)."""

_VIRTIO_RING: Final = ValueFacts(
    minimum=1,
    source="virtnet_set_ringparam; captured on kernel 6.1: 1 is read back as 1; the device tells the maximum",
)
VIRTIO_NET: Final = DriverFacts(
    name="virtio_net",
    kernel="6.12",
    rings=frozenset({"rx_ring", "tx_ring"}),
    coalesce=frozenset({"rx_usecs", "tx_usecs", "rx_frames", "tx_frames", "adaptive_rx", "rx_profile"}),
    per_queue_coalesce=True,
    values={"rx_ring": _VIRTIO_RING, "tx_ring": _VIRTIO_RING},
    keeps_link=MTU,
    counters={
        "rx_dropped": ("rx_queue_{q}_drops",),
        "tx_packets": ("tx_queue_{q}_packets",),
        "tx_bytes": ("tx_queue_{q}_bytes",),
        "doorbells": ("tx_queue_{q}_kicks",),
    },
    counters_source="ethtool -S on kernel 6.1: no counter tells of a full queue",
    interrupt_names=VIRTIO_NAMES,
    source="virtio_net.c (6.12): usecs only where the device offers notification coalescing (EOPNOTSUPP "
    "elsewhere, captured), and then only tx-frames 0 or 1 with rx-frames 1; tx-frames from or to 0 needs the "
    "link down (EBUSY); rings are resized one queue at a time; "
    "virtnet_init_irq_moder: rx-profile has microseconds and packets, no completions",
)


def _vmxnet3_ring(default: int) -> ValueFacts:
    return ValueFacts(
        default=default,
        minimum=1,
        maximum=4096,
        multiple=32,
        source="vmxnet3_set_ringparam: 0 is EINVAL, up to VMXNET3_RING_SIZE_ALIGN = 32; captured on kernel "
        "6.1: 1 is read back as 32, 300 as 320",
    )


VMXNET3: Final = DriverFacts(
    name="vmxnet3",
    kernel="6.12",
    rings=frozenset({"rx_ring", "rx_mini_ring", "rx_jumbo_ring", "tx_ring"}),
    values={"tx_ring": _vmxnet3_ring(512), "rx_ring": _vmxnet3_ring(1024)},
    resets_link=frozenset({"rx_ring", "rx_mini_ring", "rx_jumbo_ring", "tx_ring"}),
    counters={
        "push_back": ("Tx Queue#: {q}/ring full",),
        "tx_dropped": ("Tx Queue#: {q}/drv dropped tx total", "Tx Queue#: {q}/pkts tx discard"),
        "rx_dropped": ("Rx Queue#: {q}/drv dropped rx total",),
        "missed": ("Rx Queue#: {q}/pkts rx OOB",),
        "tx_packets": (
            "Tx Queue#: {q}/ucast pkts tx",
            "Tx Queue#: {q}/mcast pkts tx",
            "Tx Queue#: {q}/bcast pkts tx",
        ),
    },
    counters_source="ethtool -S on kernel 6.1; vmxnet3_ethtool.c: OOB is out of buffers",
    interrupt_names=VMXNET3_NAMES,
    source="vmxnet3_ethtool.c (6.12): coalescing depends on the version of the device (EOPNOTSUPP in QEMU, "
    "captured); a ring change quiesces and resets the device",
)

_ENA_RING: Final = ValueFacts(
    minimum=256,
    below="clamp",
    rounding="power of two down",
    source="ena_set_ringparam: at least ENA_MIN_RING_SIZE = 256, then rounddown_pow_of_two; the device tells "
    "the maximum",
)
ENA: Final = DriverFacts(
    name="ena",
    kernel="6.12",
    rings=frozenset({"rx_ring", "tx_ring", "tx_push", "tx_push_buf_len"}),
    coalesce=frozenset({"rx_usecs", "tx_usecs", "adaptive_rx"}),
    per_queue_coalesce=False,
    values={"rx_ring": _ENA_RING, "tx_ring": _ENA_RING},
    resets_link=frozenset({"rx_ring", "tx_ring"}),
    counters={
        "push_back": ("queue_{q}_tx_queue_stop",),
        "missed": ("queue_{q}_rx_empty_rx_ring",),
        "tx_packets": ("queue_{q}_tx_cnt",),
        "tx_bytes": ("queue_{q}_tx_bytes",),
        "doorbells": ("queue_{q}_tx_doorbells",),
        "resets": ("wd_expired", "interface_up"),
    },
    counters_source="ena_ethtool.c: ena_stats_global_strings, ena_stats_tx_strings",
    interrupt_names=ENA_NAMES,
    source="ena_ethtool.c (6.12): coalescing, adaptive-rx included, is EOPNOTSUPP where the device has no "
    "interrupt moderation",
)

VETH: Final = DriverFacts(
    name="veth",
    kernel="6.18",
    rings=frozenset(),
    coalesce=frozenset(),
    per_queue_coalesce=False,
    keeps_link=MTU,
    counters={"rx_dropped": ("rx_queue_{q}_drops",)},
    counters_source="ethtool -S on kernel 6.18; no counter tells of a full queue",
    gauges=GAUGES,
    source="ethtool 6.1 on kernel 6.18: -G and -C are EOPNOTSUPP",
)

VETH_PUSHES_BACK_SINCE: Final = (6, 16)
"""Linux from which a veth whose peer's ring of 256 is full stops its queue and gives the frame back to the
qdisc; before, it drops it (drivers/net/veth.c, veth_xmit: NETDEV_TX_BUSY where a qdisc is attached)."""

TAP: Final = DriverFacts(
    name="tun",
    kernel="6.18",
    rings=frozenset(),
    coalesce=frozenset({"rx_frames"}),
    per_queue_coalesce=False,
    keeps_link=MTU,
    values={
        "rx_frames": ValueFacts(
            default=0,
            minimum=0,
            maximum=64,
            above="clamp",
            source="tun_set_coalesce: clamped to NAPI_POLL_WEIGHT = 64",
        )
    },
    source="ethtool 6.1 on kernel 6.18: -G is EOPNOTSUPP, -C knows rx-frames only, there are no statistics",
)
"""Tap devices; their driver calls itself tun."""
