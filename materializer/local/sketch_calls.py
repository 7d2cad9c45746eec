"""The calls of DuckDB that make, merge and ask sketches and hashes in Python, chunk by chunk of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from materializer.local import hashes, sketches
from materializer.local.kinds import CALL

if TYPE_CHECKING:
    import duckdb

Column: TypeAlias = "pa.ChunkedArray"

_ELEMENTS: Final = {"double": "DOUBLE", "float": "FLOAT", "bigint": "BIGINT"}


def make_known(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Let the statements of a connection use the calls that :mod:`.sketch_forms` writes; return their names."""
    names = []

    def known(name: str, call: Callable[..., pa.Array], gives: str, *takes: str) -> None:
        names.append(name)
        kinds: Any = list(takes)
        how, nulls = PythonUDFType.ARROW, FunctionNullHandling.SPECIAL
        connection.create_function(CALL + name, call, kinds, gives, type=how, null_handling=nulls)

    for kind, element in _ELEMENTS.items():
        known(f"kll_built_{kind}", _kll_built(kind), "BLOB", f"{element}[]", "INTEGER")
        known(f"kll_merged_{kind}", _kll_merged(kind), "BLOB", "BLOB[]", "INTEGER")
        known(f"kll_n_{kind}", _kll_n(kind), "BIGINT", "BLOB")
        known(f"kll_quantiles_{kind}", _kll_quantiles(kind), f"{element}[]", "BLOB", "DOUBLE[]")
    known("hll_built", _hll_built, "BLOB", "BIGINT[]", "INTEGER")
    known("hll_merged", _hll_merged, "BLOB", "BLOB[]")
    known("hll_estimate", _hll_estimate, "BIGINT", "BLOB")
    for name, takes, hashed in (
        ("long", "BIGINT", hashes.of_longs),
        ("int", "INTEGER", hashes.of_ints),
        ("double", "DOUBLE", hashes.of_doubles),
        ("float", "FLOAT", hashes.of_floats),
        ("text", "VARCHAR", hashes.of_bytes),
        ("bytes", "BLOB", hashes.of_bytes),
    ):
        known(f"xxhash64_{name}", _hashed(hashed), "BIGINT", takes)
    return names


def _hashed(call: Callable[[pa.Array], pa.Array]) -> Callable[[Column], pa.Array]:
    return lambda values: call(_array(values))


def _kll_built(kind: str) -> Callable[..., pa.Array]:
    def built(lists: Column, sizes: Column) -> pa.Array:
        pairs = zip(_lists(lists, sketches.DTYPES[kind]), sizes.to_pylist(), strict=True)
        return pa.array([sketches.kll_built(values, kind, k) for values, k in pairs], pa.binary())

    return built


def _kll_merged(kind: str) -> Callable[..., pa.Array]:
    def merged(lists: Column, sizes: Column) -> pa.Array:
        pairs = zip(lists.to_pylist(), sizes.to_pylist(), strict=True)
        return pa.array([sketches.kll_merged(of or (), kind, k) for of, k in pairs], pa.binary())

    return merged


def _kll_n(kind: str) -> Callable[..., pa.Array]:
    def n(found: Column) -> pa.Array:
        return pa.array([None if of is None else sketches.Kll.of(of, kind).n for of in found.to_pylist()], pa.int64())

    return n


def _kll_quantiles(kind: str) -> Callable[..., pa.Array]:
    def quantiles(found: Column, ranks: Column) -> pa.Array:
        made = [
            None if of is None or at is None else sketches.Kll.of(of, kind).quantiles(at)
            for of, at in zip(found.to_pylist(), ranks.to_pylist(), strict=True)
        ]
        return pa.array(made, pa.list_(pa.from_numpy_dtype(sketches.DTYPES[kind])))

    return quantiles


def _hll_built(lists: Column, sizes: Column) -> pa.Array:
    pairs = zip(_lists(lists, np.dtype("<i8")), sizes.to_pylist(), strict=True)
    return pa.array([sketches.hll_built(values, lg_k) for values, lg_k in pairs], pa.binary())


def _hll_merged(lists: Column) -> pa.Array:
    return pa.array([sketches.hll_merged(of or ()) for of in lists.to_pylist()], pa.binary())


def _hll_estimate(found: Column) -> pa.Array:
    made = [None if of is None else sketches.hll_estimate(of) for of in found.to_pylist()]
    return pa.array(made, pa.int64())


def _lists(lists: Column, dtype: np.dtype[Any]) -> Iterator[sketches.Numbers]:
    """Yield the values of each list; a null list has none. The lists have no nulls."""
    whole = _array(lists)
    values = whole.flatten().to_numpy(zero_copy_only=False).astype(dtype, copy=False)
    lengths = whole.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    for first, last in zip((ends - lengths).tolist(), ends.tolist(), strict=True):
        yield values[first:last]


def _array(column: Column) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
