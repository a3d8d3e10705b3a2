"""Settings of a device as values: read, written, journalled, put back."""
