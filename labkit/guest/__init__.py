"""The small machine that a `vm:` rig measures in: its kernel, its initramfs, and what drives QEMU."""
