"""One simulated machine as a frozen record: NIC, kernel, and what its CPU spends where."""

from __future__ import annotations

from typing import Literal

import msgspec

from labkit.drivers.facts import TransmitFacts


class Constant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of the model and why it is believed.

    Attributes
    ----------
    value : int or float
        In the unit that ends its name.
    kind : str
        ``sourced`` (read somewhere), ``fitted`` (to a published table) or ``assumed`` (no table tells).
    source : str
        Where it was read, which table it was fitted on, or why it is assumed.
    """

    value: int | float
    kind: Literal["sourced", "fitted", "assumed"]
    source: str


class Constants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every number of the closed law that is not the driver's.

    Attributes
    ----------
    link_bits_per_s : Constant
        Speed of the wire.
    packet_ns : Constant
        CPU time to send one packet and to clean its descriptor.
    interrupt_ns : Constant
        CPU time of one interrupt and its poll, whatever it cleans.
    repoll_ns : Constant
        CPU time of one more poll, after the clean limit was reached.
    cached_descriptors : Constant
        Descriptors cleaned at once whose data are still in the first-level cache.
    cache_miss_ns : Constant
        What each descriptor beyond those costs more.
    """

    link_bits_per_s: Constant
    packet_ns: Constant
    interrupt_ns: Constant
    repoll_ns: Constant
    cached_descriptors: Constant
    cache_miss_ns: Constant

    def values(self) -> dict[str, int | float]:
        """The numbers alone, by name."""
        return {name: getattr(self, name).value for name in self.__struct_fields__}

    def origins(self) -> dict[str, str]:
        """``kind: source`` of each number, by name."""
        constants = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: f"{constant.kind}: {constant.source}" for name, constant in constants.items()}


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the law needs to know about one machine.

    Attributes
    ----------
    name : str
        ``ixgbe``, or ``ixgbe@kernel`` for other kernels than the profile's first.
    kernel, cpu, nic : str
        What was measured, in words.
    driver : TransmitFacts
        Limits, rounding and coded values of the NIC's driver.
    constants : Constants
        Costs and sizes, each with its source.
    """

    name: str
    kernel: str
    cpu: str
    nic: str
    driver: TransmitFacts
    constants: Constants
