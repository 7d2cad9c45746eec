"""``xxhash64`` as Spark computes it: XXH64 with the seed 42 of the bytes of a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

SEED: Final = 42
"""What Spark begins with, and so the hash of null."""
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_START: Final = np.uint64(SEED)


def of_longs(values: pa.Array) -> pa.Array:
    """Return the hash of each 64-bit integer."""
    words = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    return _where_valid(values, _of_rows(words.view(np.uint8).reshape(len(values), 8)))


def of_ints(values: pa.Array) -> pa.Array:
    """Return the hash of each 32-bit integer."""
    words = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    return _where_valid(values, _of_rows(words.view(np.uint8).reshape(len(values), 4)))


def of_doubles(values: pa.Array) -> pa.Array:
    """Return the hash of each double; both zeros are one, and so are all NaN."""
    return of_longs(pa.array(_one_of_each(values).view(np.int64), mask=_is_null(values)))


def of_floats(values: pa.Array) -> pa.Array:
    """Return the hash of each float; both zeros are one, and so are all NaN."""
    return of_ints(pa.array(_one_of_each(values).view(np.int32), mask=_is_null(values)))


def of_bytes(values: pa.Array) -> pa.Array:
    """Return the hash of each text or binary."""
    binary = values.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(binary.buffers()[1], np.int64)[binary.offset : binary.offset + len(binary) + 1]
    data = np.frombuffer(binary.buffers()[2] or b"", np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = np.empty(len(binary), np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        found[rows] = _of_rows(data[starts[rows][:, None] + np.arange(length)])
    return _where_valid(values, found)


def _one_of_each(values: pa.Array) -> np.ndarray[Any, np.dtype[Any]]:
    numbers: np.ndarray[Any, np.dtype[Any]] = values.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    numbers[numbers == 0] = 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers


def _is_null(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = values.is_null().to_numpy(zero_copy_only=False)
    return found


def _where_valid(values: pa.Array, found: Words) -> pa.Array:
    return pa.array(np.where(_is_null(values), np.int64(SEED), found.view(np.int64)), pa.int64())


def _of_rows(rows: np.ndarray[Any, np.dtype[np.uint8]]) -> Words:
    """Return XXH64 of each row of a matrix of bytes."""
    count, length = rows.shape
    with np.errstate(over="ignore"):
        done = length - length % 32 if length >= 32 else 0
        hashed = _of_stripes(rows[:, :done]) if done else np.full(count, _START + _P5)
        hashed = hashed + np.uint64(length)
        for word in _words(rows[:, done : done + (length - done) // 8 * 8], np.uint64):
            hashed = _rotated(hashed ^ _round(np.zeros(count, np.uint64), word), 27) * _P1 + _P4
        done = length // 8 * 8
        for word in _words(rows[:, done : done + (length - done) // 4 * 4], np.uint32):
            hashed = _rotated(hashed ^ (word * _P1), 23) * _P2 + _P3
        for word in _words(rows[:, length // 4 * 4 :], np.uint8):
            hashed = _rotated(hashed ^ (word * _P5), 11) * _P1
        hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
        hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
        return hashed ^ (hashed >> np.uint64(32))


def _of_stripes(rows: np.ndarray[Any, np.dtype[np.uint8]]) -> Words:
    lanes = [np.full(len(rows), start) for start in (_START + _P1 + _P2, _START + _P2, _START, _START - _P1)]
    for i, word in enumerate(_words(rows, np.uint64)):
        lanes[i % 4] = _round(lanes[i % 4], word)
    hashed: Words = sum(
        (_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.zeros(len(rows), np.uint64)
    )
    for lane in lanes:
        hashed = (hashed ^ _round(np.zeros(len(rows), np.uint64), lane)) * _P1 + _P4
    return hashed


def _words(rows: np.ndarray[Any, np.dtype[np.uint8]], kind: type[np.unsignedinteger[Any]]) -> Iterator[Words]:
    """Yield the first word of all rows, then their second one, and so on."""
    width = np.dtype(kind).itemsize
    for first in range(0, rows.shape[1], width):
        yield np.ascontiguousarray(rows[:, first : first + width]).view(kind).ravel().astype(np.uint64)


def _round(lane: Words, word: Words) -> Words:
    return _rotated(lane + word * _P2, 31) * _P1


def _rotated(words: Words, by: int) -> Words:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))
