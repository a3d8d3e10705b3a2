"""How drivers call their interrupts in ``/proc/interrupts``, as patterns."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

InterruptKind: TypeAlias = Literal["queue", "control", "unknown"]
QueueSide: TypeAlias = Literal["rx", "tx", "both"]

PCI_ADDRESS: Final = r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
"""Domain, bus, device and function."""

_DEVICE: Final = r"(?P<device>[^\s/]+?)"
_PCI: Final = rf"(?:@pci:(?P<pci>{PCI_ADDRESS}))"
_QUEUE: Final = r"(?P<queue>\d+)"


class NamePattern(msgspec.Struct, frozen=True, kw_only=True):
    """One way to name an interrupt.

    Attributes
    ----------
    pattern : str
        Regular expression for the whole name; its groups are ``device``, ``pci``, ``queue`` and ``bus``
        (a virtio device's name), as far as the name tells them.
    kind : str
        ``queue`` for packets, ``control`` for link, management and configuration.
    side : str or None
        Direction of the queue.
    source : str
        Where the name was seen.
    """

    pattern: str
    kind: InterruptKind
    side: QueueSide | None
    source: str


def _queue(pattern: str, side: QueueSide | None, source: str) -> NamePattern:
    return NamePattern(pattern=pattern, kind="queue", side=side, source=source)


def _control(pattern: str, source: str) -> NamePattern:
    return NamePattern(pattern=pattern, kind="control", side=None, source=source)


INTEL: Final = (
    _control(rf"(?:i40e|ice)-(?P<pci>{PCI_ADDRESS}):misc", "i40e_main.c, ice_main.c: '%s-%s:misc'"),
    _queue(rf"(?:i40e|ice)-{_DEVICE}-TxRx-{_QUEUE}", "both", "i40e_main.c, ice_main.c: '%s-%s-%s-%d'"),
    _queue(rf"{_DEVICE}-(?:TxRx|txrx)-{_QUEUE}", "both", "ixgbe_main.c, igb_main.c: '%s-TxRx-%u'; tg3.c"),
    _queue(rf"{_DEVICE}-rx-{_QUEUE}", "rx", "ixgbe_main.c, e1000e netdev.c: '%s-rx-%u'"),
    _queue(rf"{_DEVICE}-tx-{_QUEUE}", "tx", "ixgbe_main.c, e1000e netdev.c: '%s-tx-%u'"),
)
ENA: Final = (
    _control(rf"ena-mgmn?t{_PCI}?", "ena_netdev.c: 'ena-mgmnt@pci:%s'"),
    _queue(rf"{_DEVICE}-Tx-Rx-{_QUEUE}", "both", "ena_netdev.c: '%s-Tx-Rx-%d'"),
)
MLX5: Final = (
    _control(rf"mlx5_async\d*{_PCI}?", "mlx5 pci_irq.c: 'mlx5_async%d@pci:%s'"),
    _queue(rf"mlx5_comp{_QUEUE}{_PCI}?", "both", "mlx5 pci_irq.c: 'mlx5_comp%d@pci:%s'"),
)
VIRTIO: Final = (
    _control(r"(?P<bus>virtio\d+)-config", "virtio_pci_common.c: '%s-config'"),
    _queue(rf"(?P<bus>virtio\d+)-input\.{_QUEUE}", "rx", "virtio_net.c: 'input.%u'"),
    _queue(rf"(?P<bus>virtio\d+)-output\.{_QUEUE}", "tx", "virtio_net.c: 'output.%u'"),
    NamePattern(
        pattern=r"(?P<bus>virtio\d+)-\S+", kind="unknown", side=None, source="queues of other virtio devices"
    ),
)
VMXNET3: Final = (
    _queue(rf"{_DEVICE}-rxtx-{_QUEUE}", "both", "vmxnet3_drv.c: '%s-rxtx-%d'"),
    _queue(rf"{_DEVICE}-rx-{_QUEUE}", "rx", "vmxnet3_drv.c: '%s-rx-%d'"),
    _queue(rf"{_DEVICE}-tx-{_QUEUE}", "tx", "vmxnet3_drv.c: '%s-tx-%d'"),
    _control(rf"{_DEVICE}-event-\d+", "vmxnet3_drv.c: '%s-event-%d'"),
)
GIANFAR: Final = (
    _queue(rf"{_DEVICE}_g{_QUEUE}_rx", "rx", "gianfar.c: '%s_g%d_rx'"),
    _queue(rf"{_DEVICE}_g{_QUEUE}_tx", "tx", "gianfar.c: '%s_g%d_tx'"),
    _control(rf"{_DEVICE}_g\d+_er", "gianfar.c: '%s_g%d_er'"),
)
OTHERS: Final = (
    _queue(rf"{_DEVICE} \(queue {_QUEUE}\)", "both", "irqbalance issues 202 and 352"),
    _control(rf"gve-mgmnt{_PCI}?", "gve_main.c: 'gve-mgmnt@pci:%s'"),
    _queue(rf"gve-ntfy-blk{_QUEUE}{_PCI}?", None, "gve_main.c: 'gve-ntfy-blk%d@pci:%s'"),
    _queue(rf"eth%d-ntfy-block\.{_QUEUE}", None, "gve before the device had its name"),
    _queue(rf"{_DEVICE}-ntfy-block\.{_QUEUE}", None, "gve_main.c: '%s-ntfy-block.%d'"),
)
ALL: Final = (*VIRTIO, *ENA, *MLX5, *OTHERS, *INTEL, *VMXNET3, *GIANFAR)
"""Every known name; the first that fits is meant."""
