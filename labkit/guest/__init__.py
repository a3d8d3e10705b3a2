"""A QEMU guest with a real driver: its image, its machine, and the process that answers for it."""
