"""What a rig lacks on this machine, told without starting anything."""

from __future__ import annotations

from labkit.errors import LabError
from labkit.guest.missing import QEMU, check_processor, missing, nic_device, program
from labkit.rigs.catalog import VM_PREFIX


def lacking(name: str) -> str | None:
    """Why rig `name` would not come up here and what to do; None where nothing is known to lack.

    Of `vm:` rigs the programs and QEMU's card are looked for; veth and `nic:` say it when they are opened.
    """
    if not name.startswith(VM_PREFIX):
        return None
    try:
        check_processor()
        lacks = missing()
        if lacks.command is not None:
            raise lacks.error(name)
        nic_device(name.removeprefix(VM_PREFIX), program(QEMU))
    except LabError as refused:
        return str(refused)
    return None
