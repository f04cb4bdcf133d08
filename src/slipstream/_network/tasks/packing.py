"""Compact encoding of integer rows: each column as wide as its values need, byte by byte, compressed.

Identifiers, times and positions need two or three of the eight bytes of a word. What is not written need not be
compressed, stored and read again.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._errors import MALFORMED, BadInput
from slipstream._tools.numba_tools import Bytes, Longs, compiled

Matrix: TypeAlias = npt.NDArray[np.int64]

_CODEC = pa.Codec("zstd", compression_level=1)
#: rows, and bytes before compression
_HEADER = struct.Struct("<qq")
#: rows that are transposed at a time: they stay in the L1 cache
_BLOCK = 256


@compiled
def transpose(rows: Matrix, slots: Longs, first: int, last: int) -> Matrix:
    """Transpose columns ``first`` to ``last`` - 1 of some rows; the first row of the result is the slots."""
    found = np.empty((last - first + 1, slots.size), np.int64)
    found[0] = slots
    for begin in range(0, slots.size, _BLOCK):
        end = min(begin + _BLOCK, slots.size)
        for column in range(first, last):
            for i in range(begin, end):
                found[column - first + 1, i] = rows[slots[i], column]
    return found


@compiled
def lows_and_widths(columns: Matrix) -> tuple[Longs, Longs]:
    """The least value of each column, and the bytes that its values need above that."""
    lows, widths = np.zeros(columns.shape[0], np.int64), np.zeros(columns.shape[0], np.int64)
    for c in range(columns.shape[0]):
        low = high = columns[c, 0]
        for value in columns[c]:
            low, high = min(low, value), max(high, value)
        # as a number without sign, so that the distance of any two integers fits
        span = np.uint64(high) - np.uint64(low)
        while span:
            widths[c] += 1
            span >>= np.uint64(8)
        lows[c] = low
    return lows, widths


@compiled
def split_planes(columns: Matrix, lows: Longs, widths: Longs) -> Bytes:
    """All lowest bytes of the first column, all second ones, and so on."""
    found = np.empty(columns.shape[1] * widths.sum(), np.uint8)
    place = 0
    for c in range(columns.shape[0]):
        for byte in range(widths[c]):
            plane = found[place : place + columns.shape[1]]
            for i in range(columns.shape[1]):
                plane[i] = np.uint8(((columns[c, i] - lows[c]) >> (8 * byte)) & 255)
            place += columns.shape[1]
    return found


@compiled
def join_planes(planes: Bytes, lows: Longs, widths: Longs, count: int) -> Matrix:
    """Reverse ``split_planes``."""
    found = np.empty((lows.size, count), np.int64)
    place = 0
    for c in range(lows.size):
        found[c] = lows[c]
        for byte in range(widths[c]):
            for i in range(count):
                found[c, i] += np.int64(planes[place + i]) << np.int64(8 * byte)
            place += count
    return found


def pack(columns: Matrix) -> bytes:
    """Encode columns of integers, all of the same length.

    >>> unpack(pack(np.array([[1, 2], [-5, 2**62]])), 2).tolist()
    [[1, 2], [-5, 4611686018427387904]]
    """
    if not columns.shape[1]:
        return b""
    lows, widths = lows_and_widths(columns)
    planes = split_planes(columns, lows, widths)
    small: Any = _CODEC.compress(planes, asbytes=True)
    head = _HEADER.pack(columns.shape[1], planes.size)
    return head + lows.tobytes() + widths.astype(np.uint8).tobytes() + bytes(small)


def unpack(blob: bytes, width: int) -> Matrix:
    """Decode ``width`` columns."""
    if not blob:
        return np.empty((width, 0), np.int64)
    try:
        count, size = _HEADER.unpack_from(blob)
        lows = np.frombuffer(blob, np.int64, width, _HEADER.size)
        widths = np.frombuffer(blob, np.uint8, width, _HEADER.size + 8 * width).astype(np.int64)
        if size != count * widths.sum():
            raise ValueError("its parts do not fit together")
        planes = np.frombuffer(_CODEC.decompress(blob[_HEADER.size + 9 * width :], size), np.uint8)
        return join_planes(planes, lows, widths, count)
    except (struct.error, OSError, MemoryError, *MALFORMED) as error:
        raise BadInput(
            f"State of {len(blob)} bytes is damaged: {error}.",
            hint="Use an earlier checkpoint.",
            code="damaged-checkpoint",
        ) from error
