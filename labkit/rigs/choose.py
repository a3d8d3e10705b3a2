"""A rig by its name. Rigs are imported only when chosen: the simulated NIC needs no agent."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labkit.errors import WorkloadError
from labkit.factors import SETTING_NAMES, Settings
from labkit.paths import data_dir
from labkit.rigs.base import Rig
from labkit.rigs.catalog import DEVICE_PREFIX, SIM_PREFIX, VETH, VM_PREFIX, known_rigs

if TYPE_CHECKING:
    from labkit.rigs.simulated import SimulatedRig


def rig(name: str, **parameters: Any) -> Rig:
    """Rig `name`, ready to be used as a context manager.

    Parameters
    ----------
    name : str
        ``sim:ixgbe``, ``sim:ixgbe@baseline``, ``veth``, ``vm:e1000e``, or ``nic:`` and an interface.
    **parameters
        The rig's own: see `labkit.rigs.simulated.SimulatedRig`, `labkit.rigs.veth.VethRig`,
        `labkit.rigs.vm.VmRig` and `labkit.rigs.device.DeviceRig`.

    Raises
    ------
    WorkloadError
        An unknown rig, profile or parameter; the message lists the known ones.
    """
    if name.startswith(SIM_PREFIX):
        return simulated_rig(name, **parameters)
    if name == VETH.name:
        from labkit.rigs.veth import VethRig

        _check_parameters(name, parameters, list(inspect.signature(VethRig).parameters))
        return VethRig(**parameters)
    if name.startswith(VM_PREFIX):
        from labkit.rigs.vm import VmRig

        _check_parameters(name, parameters, list(inspect.signature(VmRig).parameters)[1:])
        return VmRig(name.removeprefix(VM_PREFIX), **parameters)
    if name.startswith(DEVICE_PREFIX):
        from labkit.rigs.device import DeviceRig

        _check_parameters(name, parameters, list(inspect.signature(DeviceRig).parameters)[1:])
        return DeviceRig(name.removeprefix(DEVICE_PREFIX), **parameters)
    known = ", ".join(info.name for info in known_rigs())
    raise WorkloadError(f"unknown rig '{name}'; known: {known}")


def preview(name: str, settings: Settings, **parameters: Any) -> str:
    """What applying `settings` on rig `name` would do, in words; nothing is changed.

    On a device not even that is put back which a dead laboratory left: the first lines name it.
    """
    if name.startswith(DEVICE_PREFIX):
        parameters = {**parameters, "look_only": True}
    with rig(name, **parameters) as opened:
        return opened.preview(settings)


def simulated_rig(name: str, **parameters: Any) -> SimulatedRig:
    """Simulated rig `name` (``sim:ixgbe``).

    Raises
    ------
    WorkloadError
        No profile of that name, or no such parameter; the message lists those that exist.
    """
    from labkit.rigs.profiles import load_profile
    from labkit.rigs.simulated import SimulatedRig

    _check_parameters(name, parameters, list(inspect.signature(SimulatedRig).parameters)[1:])
    return SimulatedRig(load_profile(data_dir() / "profiles", name.removeprefix(SIM_PREFIX)), **parameters)


def _check_parameters(rig_name: str, given: Mapping[str, Any], known: list[str]) -> None:
    for parameter in given:
        if parameter not in known:
            turned = (
                rig_name.startswith((DEVICE_PREFIX, SIM_PREFIX, VM_PREFIX)) and parameter in SETTING_NAMES
            )
            instead = f"; {parameter} is a setting: --set {parameter}=VALUE" if turned else ""
            raise WorkloadError(
                f"rig '{rig_name}' has no parameter '{parameter}'; it takes {', '.join(known)}{instead}"
            )
