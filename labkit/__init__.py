"""labkit: the packet-per-second lab."""
