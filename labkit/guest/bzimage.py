"""The kernel proper out of a bzImage: QEMU starts it 2 seconds sooner than one that unpacks itself (PVH)."""

from __future__ import annotations

import bz2
import lzma
import struct
import subprocess
import zlib
from collections.abc import Callable
from typing import Final

from labkit.errors import LabError

# Documentation/arch/x86/boot.rst: offsets of setup_sects, "HdrS", payload_offset and payload_length
SETUP_SECTS, MAGIC, PAYLOAD = 0x1F1, 0x202, 0x248
SECTOR_BYTES, LENGTH_BYTES = 512, 4
ELF: Final = b"\x7fELF"
WITHIN_S: Final = 60


def _lzma(payload: bytes) -> bytes:
    return lzma.LZMADecompressor().decompress(payload)


FORMATS: Final[tuple[tuple[bytes, Callable[[bytes], bytes]], ...]] = (
    (b"\xfd7zXZ\x00", _lzma),
    (b"\x5d\x00\x00", _lzma),
    (b"\x1f\x8b", lambda payload: zlib.decompressobj(wbits=31).decompress(payload)),
    (b"BZh", lambda payload: bz2.BZ2Decompressor().decompress(payload)),
)
"""First bytes of what Python's own library unpacks."""
ZSTD: Final = b"\x28\xb5\x2f\xfd"


def vmlinux(image: bytes, zstd: Callable[[], str]) -> bytes:
    """The ELF file that bzImage `image` carries.

    Parameters
    ----------
    image : bytes
        The whole file.
    zstd : callable
        Path of the program zstd, asked for only where the kernel is packed with it.

    Raises
    ------
    LabError
        This is no bzImage, or it is damaged, or packed with something unknown.
    """
    payload = _payload(image)
    # behind it stands its unpacked length (arch/x86/boot/compressed/Makefile); gzip's own trailer has it too
    packed = payload[:-LENGTH_BYTES] if payload.startswith(ZSTD) else payload
    try:
        kernel = unpacked(packed, zstd)
    except (lzma.LZMAError, zlib.error, OSError, EOFError, ValueError) as refused:
        raise LabError(f"the kernel is damaged: {refused}") from refused
    if not kernel.startswith(ELF):
        raise LabError(
            f"the kernel's payload is packed in an unknown way (first bytes {payload[:6].hex(' ')})"
        )
    length_bytes = int.from_bytes(payload[-LENGTH_BYTES:], "little")
    if not payload.startswith(ELF) and len(kernel) != length_bytes:
        raise LabError(f"the kernel is damaged: {len(kernel)} bytes unpacked, {length_bytes} expected")
    return kernel


def unpacked(packed: bytes, zstd: Callable[[], str]) -> bytes:
    """`packed` unpacked by what its first bytes say; as it is where they say nothing."""
    if packed.startswith(ZSTD):
        return _by_zstd(packed, zstd())
    for magic, unpack in FORMATS:
        if packed.startswith(magic):
            return unpack(packed)
    return packed


def _payload(image: bytes) -> bytes:
    if image[MAGIC : MAGIC + 4] != b"HdrS":
        raise LabError("the kernel is no bzImage: its header does not say HdrS")
    offset_bytes, length_bytes = struct.unpack_from("<II", image, PAYLOAD)
    start = (image[SETUP_SECTS] + 1) * SECTOR_BYTES + offset_bytes
    payload = image[start : start + length_bytes]
    if len(payload) != length_bytes or length_bytes < len(ELF):
        raise LabError(f"the kernel is damaged: {len(payload)} of {length_bytes} packed bytes are there")
    return payload


def _by_zstd(packed: bytes, program: str) -> bytes:
    done = subprocess.run([program, "-dcq"], input=packed, capture_output=True, timeout=WITHIN_S, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip() or f"zstd ended with {done.returncode}")
    return done.stdout
