"""Settings of a device as values with limits: read, apply, read back, put back."""
