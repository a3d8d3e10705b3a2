"""How frames reach the kernel: native send loops and their slow Python twins."""
