"""Sketches in this process, against those that Spark wrote; Spark itself is asked in ``test_proven_set``."""

from __future__ import annotations

import random
from base64 import b64decode

import numpy as np
import pyarrow as pa
import pytest

from materializer.core.aggregates.sketches import rank_error
from materializer.local import hashes
from materializer.local.sketches import (
    DTYPES,
    Kll,
    SketchError,
    hll_built,
    hll_estimate,
    hll_merged,
    kll_built,
    kll_merged,
)
from tests.local.saying import same_sketch

KINDS = [*DTYPES]
RANKS = [0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]


def values_of(kind: str, count: int, seed: int) -> np.ndarray:
    """Return random numbers of a kind; whole ones are too large for a double."""
    choose = random.Random(seed)
    if kind == "bigint":
        return np.array([choose.randrange(-(2**63), 2**63) for _ in range(count)], np.int64)
    return np.array([choose.uniform(-1e6, 1e6) for _ in range(count)], DTYPES[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_few_values_are_all_kept(kind: str, count: int) -> None:
    """
    A quantile is the least value at whose rank or below the share of all values lies.
    """
    values = values_of(kind, count, seed=count)

    found = Kll.of(kll_built(values, kind, 200), kind)

    assert (count, values.min(), values.max()) == (found.n, found.least, found.greatest)
    ordered = sorted(values.tolist())
    assert [ordered[max(0, int(np.ceil(round(r * count, 7))) - 1)] for r in RANKS] == found.quantiles(RANKS).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_of_many_values_are_within_the_rank_error(kind: str) -> None:
    """
    Also of sketches that were merged, whatever their sizes; the ends are exact.
    """
    values = values_of(kind, 30_000, seed=1)
    parts = [kll_built(part, kind, 200) for part in np.split(values, [1, 1, 3, 400, 900, 20_000])]

    for sketch in (kll_built(values, kind, 200), kll_merged(parts, kind, 200)):
        found = Kll.of(sketch, kind)
        quantiles = found.quantiles(RANKS)
        assert (30_000, values.min(), values.max()) == (found.n, quantiles[0], quantiles[-1])
        ranks = [(values <= q).mean() for q in quantiles]
        assert RANKS == pytest.approx(ranks, abs=2 * rank_error(200))


def test_a_rank_is_rounded_before_it_is_counted() -> None:
    """
    0.28 of 25 values are 7, though the product of the doubles is a bit more.
    """
    found = Kll.of(kll_built(np.arange(1, 26), "bigint", 200), "bigint")

    assert [7, 14] == found.quantiles([0.28, 0.56]).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_no_values_is_merged_like_nothing(kind: str) -> None:
    """
    An empty sketch has no quantiles; a sketch beside it stays as it is, byte for byte.
    """
    empty, one = (kll_built(values_of(kind, count, seed=3), kind, 200) for count in (0, 9))

    assert (0, empty) == (Kll.of(empty, kind).n, kll_merged([empty, empty], kind, 200))
    assert one == kll_merged([empty, one, empty], kind, 200)
    with pytest.raises(SketchError, match="0 values"):
        Kll.of(empty, kind).quantiles([0.5])


def test_nan_is_no_value() -> None:
    """
    Spark's sketch passes over it.
    """
    assert 2 == Kll.of(kll_built(np.array([1.0, np.nan, 2.0]), "double", 200), "double").n


@pytest.mark.parametrize("lg_k", [4, 7, 12, 21])
def test_merged_distinct_values_are_those_of_all(lg_k: int) -> None:
    """
    Values that stand in several sketches count once, whatever the sketches have become.
    """
    values = values_of("bigint", 5_000, seed=lg_k)
    whole = hll_built(values, lg_k)
    parts = [hll_built(part, lg_k) for part in (values[:3], values[:40], values[:3000], values[2000:])]

    found = hll_merged(parts)

    assert same_sketch(whole, found)
    assert not same_sketch(whole, parts[2])
    assert hll_estimate(found) == pytest.approx(5_000, rel=3 * 1.04 / 2 ** (lg_k / 2))
    assert parts[0] == hll_merged([parts[0]])


def test_sketches_of_several_sizes_are_not_merged() -> None:
    """
    Spark refuses them, too.
    """
    with pytest.raises(SketchError, match="several sizes"):
        hll_merged([hll_built(np.arange(3), 12), hll_built(np.arange(3), 11)])


ASKED = [0.0, 0.001, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 1.0]
QUANTILES = {
    "7 doubles": (
        "double",
        (
            "BQEPAMgACAAHAAAAAAAAAMgAAQDBAAAA7N4vlOONDcAAAAAAAAA3QHRJ5HrYsAFA4IiANogaCkDs3i+U440NwAAAAAAAAPA/bPsWmcATAsAAAAAAAAA3QAAA"
            "AAAAAPA/"
        ),
        [-3.6942817284688] * 3 + [-2.259644695295199, 1.0, 1.0, 2.2113504029195443] + [23.0] * 4,
    ),
    "5 floats": (
        "float",
        "BQEPAMgACAAFAAAAAAAAAMgAAQDDAAAAJNrLvwAABEIAAIA/AACgQQAAgD8AAARCJNrLvw==",
        [-1.5925946235656738] * 3 + [1.0] * 3 + [20.0] + [33.0] * 4,
    ),
    "202 integers, of which few are left, and not the ends": (
        "bigint",
        (
            "BQEPAAgACADKAAAAAAAAAAgABQADAAAABQAAABEAAAAhAAAAIQAAADD/Rgh6OECCPsaKIlPXCXhRUw4AAAAAAD7GiiJT1wl4MP9GCHo4QII+1kNuM5ew1psQ"
            "hPUnQ1XzLAAAAAAAAABhAgAAAAAAAKgDAAAAAAAAxgMAAAAAAABFwAAAAAAAAJ09AQAAAAAAClYJAAAAAABZrw0AAAAAAMphDgAAAAAAcZUEcnK5C4bgAjF8"
            "NEJurwFDoDcowm/qIgAAAAAAAABaAAAAAAAAAOEAAAAAAAAAQgEAAAAAAAD0AQAAAAAAADoCAAAAAAAAlwIAAAAAAAAxyAAAAAAAAMD2AwAAAAAASBwHAAAA"
            "AAD8PAwAAAAAAAPDDQAAAAAAZzcP14//jxpKS8y7dZSJuAMBAAAAAAAA0gEAAAAAAAD9AgAAAAAAAIwZBgAAAAAADTIPAAAAAAAzpDnMWpiuOw=="
        ),
        [
            -9061180353493401808,
            -9061180353493401808,
            -5149421465538639030,
            259,
            259,
            765,
            399756,
            1914029359909255015,
            4300542209926210611,
            8649681311403525694,
            8649681311403525694,
        ],
    ),
}
ESTIMATES = {
    "a list": ("AgEHDAMAAggxhOAOO6K1BQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", 2),
    "a set": (
        (
            "AwEHDAYAAAkdAAAAgCw7BAAAAABCw/UHQ/AtDQT1UQcFDzUFAAAAAIcR3BMAAAAACUEnGQAAAACLveIETMPKCAAAAAAAAAAAD3CzETtVegQAAAAAAAAAANMR"
            "FAtvOZ4FAAAAAAAAAAAXIPoKayspBQAAAAAAAAAAAAAAAAAAAAAdIgAHAAAAAAAAAAAAAAAAIbBnCWJ31AQAAAAAAAAAAAAAAABmsLYEAAAAAMUIcxAAAAAA"
            "dZ1hBGv5AgcAAAAAAAAAAO7A3QhvBUoJAAAAAAAAAAAAAAAA81oMDgAAAAB1v3MIAAAAAAAAAAAAAAAA+cFPDgAAAAD7aBME/IGECAAAAAAAAAAAAAAAAA=="
        ),
        29,
    ),
    "registers": ("CgEHBAAAAAqILsgYXqSiQAAAAAAAYK0/AAAAAAAAAAAAAAAAAAAAAAoHBwwICAoJCAsJBwkICQc=", 3003),
}


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_of_a_sketch_that_spark_wrote(name: str) -> None:
    """
    They are those that Spark says, its least and greatest value at the ends.
    """
    kind, data, wanted = QUANTILES[name]

    assert wanted == Kll.of(b64decode(data), kind).quantiles(ASKED).tolist()


@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates_of_a_sketch_that_spark_wrote(name: str) -> None:
    """
    A union with itself says what the same union says in Spark.
    """
    data = b64decode(ESTIMATES[name][0])

    assert ESTIMATES[name][1] == hll_estimate(hll_merged([data, data]))


def spoiled(data: bytes, choose: random.Random) -> bytes:
    """Return bytes with some of them changed, added or gone."""
    found = bytearray(data)
    for _ in range(choose.choice([1, 1, 2, 5])):
        at = choose.randrange(len(found) + 1)
        match choose.randrange(4):
            case 0:
                del found[at:]
            case 1:
                found[at:at] = bytes([choose.randrange(256)])
            case 2:
                found[at : at + 8] = choose.choice([b"\xff" * 8, bytes(8), choose.randbytes(8)])
            case _:
                near = choose.randrange(max(1, min(44, len(found))))
                found[near : near + 1] = bytes([choose.choice([0, 1, 2, 3, 5, 8, 10, 255, choose.randrange(256)])])
    return bytes(found)


def test_bytes_that_are_no_sketch_are_refused() -> None:
    """
    The library takes lengths at their word and ends the process; each of them is checked before.
    """
    choose = random.Random(7)
    kll = [(kind, kll_built(values_of(kind, n, seed=n), kind, 64)) for kind in KINDS for n in (0, 1, 5, 64, 700)]
    hll = [hll_built(values_of("bigint", n, seed=n), lg_k) for lg_k in (4, 8, 12) for n in (0, 5, 30, 2000)]
    outcomes = []
    for _ in range(6_000):
        kind, data = choose.choice(kll)
        bad = spoiled(data, choose)
        distinct = choose.choice(hll)
        worse = spoiled(distinct, choose)
        try:
            found = Kll.of(kll_merged([bad, data, bad], kind, 64), kind)
            assert found.n == 2 * Kll.of(bad, kind).n + Kll.of(data, kind).n
            outcomes.append("read")
        except SketchError:
            outcomes.append("refused")
        try:
            hll_estimate(hll_merged([worse, distinct, worse]))
            outcomes.append("read")
        except SketchError:
            outcomes.append("refused")

    assert {"read", "refused"} == set(outcomes)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([0, 1, None], pa.int64()), hashes.of_longs),
        (pa.array([0, 1, None], pa.int32()), hashes.of_ints),
        (pa.array([0.0, -0.0, None], pa.float64()), hashes.of_doubles),
        (pa.array([0.0, -0.0, None], pa.float32()), hashes.of_floats),
        (pa.array(["", "a", None]), hashes.of_bytes),
    ],
)
def test_the_hash_of_null_is_the_seed(values: pa.Array, wanted: object) -> None:
    """
    And both zeros have one.
    """
    assert callable(wanted)
    first, second, null = wanted(values).to_pylist()

    assert 42 == null
    assert (first == second) == pa.types.is_floating(values.type)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 12, 31, 32, 33, 63, 64, 100])
def test_bytes_have_one_hash_wherever_they_stand(length: int) -> None:
    """
    Texts of one length are hashed together, and a slice of a column has another beginning.
    """
    text = "abcdefghij" * 10
    column = pa.array(["x" * 50, text[:length], "", text[:length], None])

    [_, one, _, other, _] = hashes.of_bytes(column).to_pylist()

    assert one == other == hashes.of_bytes(column.slice(3, 1)).to_pylist()[0]
