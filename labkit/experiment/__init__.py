"""Plans, trials and sweeps."""
