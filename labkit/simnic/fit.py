"""Least squares of a model's constants: damped Gauss-Newton, for a handful of constants and any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ROUNDS: Final = 12
HALVINGS: Final = 5


def least_squares(
    residuals: Callable[[Sequence[float]], Sequence[float]],
    start: Sequence[float],
    *,
    steps: Sequence[float],
    rounds: int = ROUNDS,
) -> tuple[float, ...]:
    """Constants with the smallest sum of squared `residuals`, from `start` on.

    Parameters
    ----------
    residuals : callable
        What is left at some constants, one number a point.
    start : sequence of float, shape (n,)
        Where to begin.
    steps : sequence of float, shape (n,)
        Differences that the derivatives are taken over: above the model's own noise.
    rounds : int
        Most Gauss-Newton steps; one that makes things worse is halved up to `HALVINGS` times.
    """
    found, spans = np.asarray(start, dtype=float), np.asarray(steps, dtype=float)
    left = np.asarray(residuals(tuple(found)))
    for _ in range(rounds):
        columns = []
        for place, span in enumerate(spans):
            sides = []
            for sign in (1.0, -1.0):
                moved = found.copy()
                moved[place] += sign * span
                sides.append(np.asarray(residuals(tuple(moved))))
            columns.append((sides[0] - sides[1]) / (2 * span))
        direction: Floats = np.linalg.lstsq(np.stack(columns, axis=1), -left, rcond=None)[0]
        for halving in range(HALVINGS):
            tried = found + direction / 2**halving
            after = np.asarray(residuals(tuple(tried)))
            if after @ after < left @ left:
                found, left = tried, after
                break
        else:
            break
    return tuple(float(value) for value in found)
