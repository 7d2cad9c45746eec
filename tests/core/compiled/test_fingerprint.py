from __future__ import annotations

import pytest

from materializer.core.compiled.fingerprint import data_fingerprint, metadata_fingerprint
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import AggregateSpec

TEXT = (
    "CREATE MATERIALIZED VIEW v COMMENT 'c' TBLPROPERTIES ('refresh.order' = 'newest') AS "
    "SELECT time_bucket('1 hour', ts) AS b, upper(sym) AS s, sum(price * 2) / count(*) AS m "
    "FROM trades WHERE side = 'b' GROUP BY b, s HAVING count(*) > 1"
)


def one(text: str) -> AggregateSpec:
    (spec,) = parse_definitions(text)
    return spec


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum(price * 2)", "SUM( Price*2 /* twice */ )"),
        ("sum(price * 2)", "sum(`price` * 2)"),
        (" / count(*)", "/count( * ) -- rows\n"),
        ("side = 'b'", "SIDE\n=\n'b'"),
        ("FROM trades", "from trades t"),
        ("upper(sym)", "UPPER(trades.sym)"),
        ("GROUP BY b, s", "GROUP BY ALL"),
        ("'1 hour'", "INTERVAL 60 MINUTES"),
        ("VIEW v", "VIEW w"),
    ],
)
def test_noise_changes_neither_fingerprint(old: str, new: str) -> None:
    """
    Spaces, comments, case, quotes, qualifiers and the way of grouping change nothing.
    """
    assert old in TEXT
    changed, spec = one(TEXT.replace(old, new)), one(TEXT)
    assert data_fingerprint(changed) == data_fingerprint(spec)
    assert metadata_fingerprint(changed) == metadata_fingerprint(spec)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'1 hour'", "'2 hours'"),
        ("ts)", "ts, 'Europe/Paris')"),
        ("ts)", "other)"),
        ("AS b", "AS bucket"),
        ("upper(sym)", "lower(sym)"),
        ("AS m", "AS n"),
        ("price * 2", "price * 3"),
        ("sum(", "max("),
        ("sum(price * 2)", "sum(DISTINCT price * 2)"),
        ("count(*) AS m", "count(*) FILTER (WHERE price > 0) AS m"),
        (" / count", " - count"),
        ("side = 'b'", "side = 'B'"),
        ("WHERE side = 'b'", ""),
        ("HAVING count(*) > 1", "HAVING count(*) > 2"),
        ("HAVING count(*) > 1", ""),
        ("FROM trades", "FROM quotes"),
        ("'refresh.order' = 'newest'", "'refresh.order' = 'newest', 'sequence' = 'seq'"),
    ],
)
def test_whatever_changes_a_result_changes_the_data_fingerprint(old: str, new: str) -> None:
    """
    A difference in grid, keys, measures, filters, source or sequence is a new data version, and no metadata.
    """
    assert old in TEXT
    changed, spec = (
        one(TEXT.replace(old, new).replace("GROUP BY bucket", "GROUP BY 1").replace("GROUP BY b,", "GROUP BY 1,")),
        one(TEXT),
    )
    assert data_fingerprint(changed) != data_fingerprint(spec)
    assert metadata_fingerprint(changed) == metadata_fingerprint(spec)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("COMMENT 'c'", "COMMENT 'd'"),
        ("'newest'", "'oldest'"),
        ("'refresh.order'", "'refresh.max_runs' = '3', 'refresh.order'"),
    ],
)
def test_comment_and_policies_change_the_metadata_fingerprint_alone(old: str, new: str) -> None:
    """
    A new description or policy rebuilds nothing.
    """
    changed, spec = one(TEXT.replace(old, new)), one(TEXT)
    assert data_fingerprint(changed) == data_fingerprint(spec)
    assert metadata_fingerprint(changed) != metadata_fingerprint(spec)


def test_the_fingerprint_survives_being_stored() -> None:
    """
    A definition read back from its JSON form has the same fingerprints.
    """
    spec = one(TEXT)
    again = AggregateSpec.from_json(spec.as_json())
    assert (data_fingerprint(again), metadata_fingerprint(again)) == (
        data_fingerprint(spec),
        metadata_fingerprint(spec),
    )
