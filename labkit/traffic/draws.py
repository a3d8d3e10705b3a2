"""Seeded random numbers that are the same in every process, on every day, in every version of numpy.

PCG64's raw stream is what numpy promises never to change (NEP 19); its distributions are not used.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

FEISTEL_ROUNDS = 4
SPLITMIX = np.uint64(0xBF58476D1CE4E5B9)
"""Multiplier of the SplitMix64 generator (Steele, Lea and Flood, 2014): spreads low bits over the word."""


def drawn(seed: int, stream: str, n: int, span: int, *, distinct: bool) -> NDArray[np.uint64]:
    """`n` numbers from 0 to `span` - 1, none twice when `distinct`; each `stream` has its own."""
    source = np.random.PCG64(np.random.SeedSequence([seed, zlib.crc32(stream.encode())]))
    return _distinct(source, n, span) if distinct else _draw(source, n, span)


def _draw(source: np.random.PCG64, n: int, span: int) -> NDArray[np.uint64]:
    raw: NDArray[np.uint64] = source.random_raw(n)
    if span == 1 << 64:
        return raw
    # the upper 32 bits scaled to the range: twice as fast as the remainder of a division
    return (
        (raw >> np.uint64(32)) * np.uint64(span) >> np.uint64(32)
        if span <= 1 << 32
        else raw % np.uint64(span)
    )


def _distinct(source: np.random.PCG64, n: int, span: int) -> NDArray[np.uint64]:
    """First `n` values of a seeded permutation of the range: none comes twice, and nothing is sorted.

    Values that the permutation of the next power of two puts behind the range are permuted again until they
    lie within (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
    """
    bits = max(2, (span - 1).bit_length())
    keys = source.random_raw(FEISTEL_ROUNDS)
    values = _permuted(np.arange(n, dtype=np.uint64), bits, keys)
    while len(beyond := np.flatnonzero(values > np.uint64(span - 1))):
        values[beyond] = _permuted(values[beyond], bits, keys)
    return values


def _permuted(values: NDArray[np.uint64], bits: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Permutation of all numbers of `bits` bits: a Feistel network, four rounds (Luby and Rackoff, 1988)."""
    lower_bits = bits // 2
    lower, upper = values & np.uint64((1 << lower_bits) - 1), values >> np.uint64(lower_bits)
    for round_, key in enumerate(keys):
        if round_ % 2:
            lower ^= _mixed(upper, key) >> np.uint64(64 - lower_bits)
        else:
            upper ^= _mixed(lower, key) >> np.uint64(64 - (bits - lower_bits))
    return upper << np.uint64(lower_bits) | lower


def _mixed(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    mixed = values + key
    mixed ^= mixed >> np.uint64(30)
    mixed *= SPLITMIX
    mixed ^= mixed >> np.uint64(27)
    mixed *= SPLITMIX
    return mixed
