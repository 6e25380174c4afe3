"""Rotary position embeddings that undo to the bit: every angle is a quarter turn, whose sine and cosine are 0, 1 and -1.

A rotation turns the pair (a, b) of a row at position p into (a cos - b sin, a sin + b cos), with the cosine and the sine of row p
of two caches, one column a pair. Pairs are column i and column i + width / 2, or, interleaved, columns 2 i and 2 i + 1. The
products of a quarter turn are the numbers themselves and zeros, so that a row that goes in turned back comes out as it was.
"""

import numpy as np

from ._forms import refuse
from ._quotes import refusals

REFUSED = refusals("""
arithmetic
    ! a NaN or an infinity spreads over its pair in a rotation | inf * 0.0 = nan
    ! a NaN or an infinity spreads over its pair in a rotation | nan * 0.0 = nan
""")
_COSINES, _SINES = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])


def caches(positions, width, dtype):
    """(cos, sin) [positions, width / 2]: neighbouring positions and pairs turn by different angles."""
    quarters = _quarters(np.arange(positions), width)
    return _COSINES[quarters].astype(dtype), _SINES[quarters].astype(dtype)


def turned_back(array, positions, interleaved):
    """[B, H, L, D] whose rows the rotation at `positions`, integers [B, L], turns into those of `array`."""
    refuse(not np.isfinite(array).all(), "a NaN or an infinity spreads over its pair in a rotation")
    width = array.shape[3]
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, width // 2), slice(width // 2, None))
    quarters = _quarters(positions, width)[:, None]
    cos, sin = _COSINES[quarters].astype(array.dtype), _SINES[quarters].astype(array.dtype)
    a, b = array[..., first], array[..., second]
    turned = np.empty_like(array)
    turned[..., first] = a * cos + b * sin
    turned[..., second] = b * cos - a * sin
    return turned


def _quarters(positions, width):
    # No linear function of the position: then a token that all others turn with would pass for another.
    pair = np.arange(width // 2)
    return (positions[..., None] * (positions[..., None] + 1 + pair % 3) + pair) % 4
