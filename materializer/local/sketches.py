"""Sketches in the bytes that Spark's functions write: built, merged and asked in this process.

Bytes come from a lake that anybody may write. The library takes lengths in them at their word, so all of them are checked here
before it gets them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import datasketches
import numpy as np
from msgspec import Struct

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_KLL: Final = 15
_HLL: Final = 7
_M: Final = 8
_MOST_LEVELS: Final = 61
_LARGEST_REGISTER: Final = 63
_ROUNDED: Final = 1e7
_EMPTY, _LEVEL_ZERO_SORTED, _SINGLE = 1, 2, 4
_HEAD: Final = struct.Struct("<BBBBHBx")
_REST: Final = struct.Struct("<QHBx")
_REFUSED: Final = (ValueError, IndexError, RuntimeError)
"""What the library raises."""
_CLASSES: Final = {"double": datasketches.kll_doubles_sketch, "float": datasketches.kll_floats_sketch}
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "double": np.dtype("<f8"),
    "float": np.dtype("<f4"),
    "bigint": np.dtype("<i8"),
}
"""The numbers in each kind of quantile sketch."""


class SketchError(ValueError):
    """Bytes that are no sketch, or one that is not merged with others."""


# -- quantiles -----------------------------------------------------------------------------------------------------------


class Kll(Struct, frozen=True):
    """A quantile sketch.

    Args:
        data: Its bytes.
        n: Number of values that it received.
        items: The values that it still has, those of its lowest level first.
        counts: How many of them are on each level; one on level ``i`` stands for ``2 ** i`` values.
        least: The least value that it received; of an empty sketch 0.
        greatest: The greatest one.
    """

    data: bytes
    n: int
    items: Numbers
    counts: tuple[int, ...]
    least: Any
    greatest: Any

    @classmethod
    def of(cls, data: bytes, kind: str) -> Kll:
        """Return the sketch in some bytes.

        Args:
            data: The bytes.
            kind: One of :data:`DTYPES`.

        Raises:
            SketchError: If they are none.
        """
        dtype = DTYPES[kind]
        try:
            ints, version, family, flags, k, m = _HEAD.unpack_from(data)
            marks = ints, version, flags & (_EMPTY | _SINGLE)
            if family == _KLL and m == _M and k >= _M:
                if marks == (2, 1, _EMPTY) and len(data) == 8:
                    return cls(data, 0, np.empty(0, dtype), (), 0, 0)
                if marks == (2, 2, _SINGLE) and len(data) == 8 + dtype.itemsize:
                    items = _numbers(data, dtype, 8)
                    return cls(data, 1, items, (1,), items[0], items[0])
                if marks == (5, 1, 0):
                    return cls._full(data, dtype, k, flags)
        except struct.error as exc:
            raise SketchError(_words(data)) from exc
        raise SketchError(_words(data))

    @classmethod
    def _full(cls, data: bytes, dtype: np.dtype[Any], k: int, flags: int) -> Kll:
        n, _, levels = _REST.unpack_from(data, 8)
        first = 20 + 4 * levels
        if not 0 < levels <= _MOST_LEVELS or (len(data) - first) % dtype.itemsize:
            raise SketchError(_words(data))
        edges = [*struct.unpack_from(f"<{levels}I", data, 20), _capacity(k, levels)]
        counts = tuple(b - a for a, b in pairwise(edges))
        items = _numbers(data, dtype, first)
        weight = sum(count << level for level, count in enumerate(counts))
        if min(counts) < 0 or weight != n or len(items) != 2 + sum(counts):
            raise SketchError(_words(data))
        if levels > 1 or flags & _LEVEL_ZERO_SORTED:
            steps = np.flatnonzero(items[3:] < items[2:-1]) + 1  # where a value is less than the one before it
            if not flags & _LEVEL_ZERO_SORTED:
                steps = steps[steps >= counts[0]]
            if not np.isin(steps, np.cumsum(counts)[:-1]).all():
                raise SketchError(_words(data))
        if items[0] > items[1]:
            raise SketchError(_words(data))
        return cls(data, n, items[2:], counts, items[0], items[1])

    def quantiles(self, ranks: Sequence[float]) -> Numbers:
        """Return the values at some ranks, as Spark does: the least one at whose rank or below the share of all values lies.

        Raises:
            SketchError: If it is empty, or a rank is not in 0 to 1.
        """
        if not self.n or not all(0 <= r <= 1 for r in ranks):
            raise SketchError(f"ranks {list(ranks)} of a sketch of {self.n} values")
        if len(self.counts) == 1:
            items = np.sort(self.items)
            if items[0] == self.least and items[-1] == self.greatest:
                return items[[max(1, min(self.n, self._place(r))) - 1 for r in ranks]]
        order = np.argsort(self.items, kind="stable")
        items = self.items[order]
        weights = np.repeat(np.left_shift(1, np.arange(len(self.counts), dtype=np.int64)), self.counts)[order]
        sums = np.cumsum(weights)
        # the ends are values that the sketch may have dropped
        if items[0] != self.least:
            items, sums = np.concatenate(([self.least], items)), np.concatenate(([1], sums))
        if items[-1] != self.greatest:
            sums[-1] -= 1
            items, sums = np.concatenate((items, [self.greatest])), np.concatenate((sums, [self.n]))
        places = np.searchsorted(sums, [self._place(r) for r in ranks])
        return items[np.minimum(places, len(items) - 1)].astype(self.items.dtype)

    def _place(self, rank: float) -> int:
        """Return how many values are at a rank or below; source: Apache DataSketches, ``QuantilesUtil.getNaturalRank``."""
        place = rank * self.n
        if self.n <= _ROUNDED:
            place = math.floor(place * _ROUNDED + 0.5) / _ROUNDED
        return math.ceil(place)


def _numbers(data: bytes, dtype: np.dtype[Any], first: int) -> Numbers:
    """Return the numbers from a place on; where NaN is one of them, no order of the library holds.

    Raises:
        SketchError: If it is.
    """
    found = np.frombuffer(data, dtype, offset=first)
    if dtype.kind == "f" and np.isnan(found).any():
        raise SketchError("a quantile sketch with NaN")
    return found


def kll_built(values: Numbers, kind: str, k: int) -> bytes:
    """Return the sketch of some values; NaN is none of them."""
    if kind == "bigint":
        unique, places = np.unique(values, return_inverse=True)
        return _with_longs(_updated("double", places.astype(np.float64), k), unique)
    return _updated(kind, values[~np.isnan(values)], k)


def kll_merged(sketches: Sequence[bytes], kind: str, k: int) -> bytes:
    """Return the sketch of all values of some sketches.

    Raises:
        SketchError: If one is none.
    """
    found = [f for f in (Kll.of(data, kind) for data in sketches) if f.n]
    if len(found) == 1:
        return found[0].data
    if kind != "bigint":
        return _merged(kind, [f.data for f in found], k)
    # the library has no sketch of longs: one of their places among all of them goes the same way
    every = [np.concatenate(([f.least, f.greatest], f.items)) for f in found]
    unique = np.unique(np.concatenate(every)) if every else np.empty(0, np.int64)
    placed = [_with_numbers(f, np.searchsorted(unique, e)) for f, e in zip(found, every, strict=True)]
    return _with_longs(_merged("double", placed, k), unique)


def _updated(kind: str, values: Numbers, k: int) -> bytes:
    sketch = _CLASSES[kind](k)
    sketch.update(np.ascontiguousarray(values))
    return bytes(sketch.serialize())


def _merged(kind: str, sketches: Sequence[bytes], k: int) -> bytes:
    sketch = _CLASSES[kind](k)
    try:
        for data in sketches:
            sketch.merge(_CLASSES[kind].deserialize(data))
    except _REFUSED as exc:
        raise SketchError(f"quantile sketches that the library does not merge: {exc}") from exc
    return bytes(sketch.serialize())


def _with_numbers(found: Kll, numbers: Numbers) -> bytes:
    """Return the bytes of a sketch with other numbers of eight bytes, the ends first."""
    at = _first_item(found.data)
    return found.data[:at] + numbers[2 if at == 8 else 0 :].astype("<f8").tobytes()


def _with_longs(data: bytes, unique: Numbers) -> bytes:
    at = _first_item(data)
    places = np.frombuffer(data, "<f8", offset=at)
    return data[:at] + unique[places.astype(np.int64)].astype("<i8").tobytes()


def _first_item(data: bytes) -> int:
    return 8 if data[0] == 2 else 20 + 4 * data[18]


@lru_cache(maxsize=1_000)
def _capacity(k: int, levels: int) -> int:
    """Return how many values a sketch with some levels may hold; source: Apache DataSketches, ``KllHelper``."""
    return sum(max(_M, _of_depth(k, levels - height - 1)) for height in range(levels))


def _of_depth(k: int, depth: int) -> int:
    if depth > 30:
        return _of_depth(_of_depth(k, depth // 2), depth - depth // 2)
    share: int = (k << 1 << depth) // 3**depth
    return (share + 1) >> 1


# -- distinct values -----------------------------------------------------------------------------------------------------


def hll_built(values: Numbers, lg_k: int) -> bytes:
    """Return the sketch of some 64-bit integers."""
    sketch = datasketches.hll_sketch(lg_k, datasketches.tgt_hll_type.HLL_8)
    update = sketch.update
    for value in values.tolist():
        update(value)
    return bytes(sketch.serialize_updatable())


def hll_merged(sketches: Sequence[bytes]) -> bytes:
    """Return the sketch of all values of some sketches, of which there is at least one.

    Raises:
        SketchError: If one is none, or they have several sizes.
    """
    found = [_hll(data) for data in sketches]
    if len({f.lg_config_k for f in found}) != 1:
        raise SketchError("sketches of several sizes")
    if len(found) == 1:
        return sketches[0]
    union = datasketches.hll_union(found[0].lg_config_k)
    try:
        for sketch in found:
            union.update(sketch)
    except _REFUSED as exc:
        raise SketchError(f"sketches of distinct values that the library does not merge: {exc}") from exc
    return bytes(union.get_result(datasketches.tgt_hll_type.HLL_8).serialize_updatable())


def hll_estimate(data: bytes) -> int:
    """Return about how many values a sketch received.

    Raises:
        SketchError: If it is none.
    """
    found = float(_hll(data).get_estimate())
    if not math.isfinite(found):
        raise SketchError(_words(data))
    return math.floor(found + 0.5)


def _hll(data: bytes) -> Any:
    """Return the library's sketch of some bytes, after all lengths in them were checked."""
    if len(data) < 8 or data[1:3] != bytes((1, _HLL)) or not 4 <= data[3] <= 21:
        raise SketchError(_words(data))
    ints, lg_array, flags, count, mode = data[0], data[4], data[5], data[6], data[7]
    is_compact = bool(flags & 8)
    if mode & 3 == 0 and ints == 2 and lg_array == 3:
        is_right = _holds(data[8:], count, 3, is_compact=is_compact)
    elif mode & 3 == 1 and ints == 3 and len(data) >= 12 and 5 <= lg_array <= max(5, data[3] - 3):
        is_right = _holds(data[12:], int.from_bytes(data[8:12], "little"), lg_array, is_compact=is_compact)
    elif mode & 3 == 2 and mode >> 2 == 2 and ints == 10 and len(data) == 40 + (1 << data[3]):
        registers = np.frombuffer(data, np.uint8, offset=40)
        is_plain = not count and not any(data[36:40])  # what a sketch of fewer bits has beside its registers
        is_finite = math.isfinite(sum(struct.unpack_from("<3d", data, 8)))
        is_right = is_plain and is_finite and int(registers.max()) <= _LARGEST_REGISTER
    else:
        is_right = False
    if not is_right:
        raise SketchError(_words(data))
    try:
        return datasketches.hll_sketch.deserialize(data)
    except _REFUSED as exc:
        raise SketchError(_words(data)) from exc


def _holds(data: bytes, count: int, lg_array: int, *, is_compact: bool) -> bool:
    """Return whether bytes are so many coupons, in an array with room where they are not compact."""
    size = 1 << lg_array
    if len(data) != 4 * (count if is_compact else size) or count > size:
        return False
    there: bool = np.count_nonzero(np.frombuffer(data, "<u4")) == count
    return there


def _words(data: bytes) -> str:
    return f"{len(data)} bytes that are no sketch of this kind, beginning with {data[:8].hex()}"
