"""Where it happens: the simulated NIC, a veth pair, later a VM and real devices."""
