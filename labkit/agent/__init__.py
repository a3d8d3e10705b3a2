"""The child process that owns namespaces and devices, pins CPUs, sends and counts; and its client."""
