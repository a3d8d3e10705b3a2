"""The simulated NIC: how a TX ring, its interrupts and one CPU make packets per second. Pure arithmetic."""
