"""Queries as values."""

from __future__ import annotations

import doctest

from materializer.core.query.nodes import Named, Query, Union, hidden_in
from tests.core.query import printed as module
from tests.core.query.printed import printed

RAW = Named("raw", (("k", "string"), ("t", "bigint")))


def _query(raw: Query = RAW) -> Query:
    marked = raw.over(["k"], ["t"], before="lag(t)").add(gap="t - before", t="-t")
    return marked.where("gap > 3").explode("at", "sequence(t, 0)").group(["k", "at"], [("n", "count(*)")])


def test_queries_that_are_built_alike_are_equal_and_have_one_hash() -> None:
    """
    Another text anywhere in it makes another query.
    """
    other = RAW.over(["k"], ["t"], before="lead(t)")

    assert _query() == _query(Named("raw", RAW.columns))
    assert hash(_query()) == hash(_query(Named("raw", RAW.columns)))
    assert RAW.over(["k"], ["t"], before="lag(t)") != other
    assert len({_query(), _query(), other}) == 2


def test_a_node_knows_the_names_of_its_columns() -> None:
    """
    A column that is added again stands where it stood; a join has the columns of both sides, without those that are equal.
    """
    places = RAW.over(["k"], ["t"], place="row_number()")

    assert RAW.add(t="t + 1", u="t").names == ("k", "t", "u")
    assert RAW.without("k").names == ("t",)
    assert _query().names == ("k", "at", "n")
    assert RAW.add(u="0").same(places, [("k", "k"), ("t", "t")]).names == ("k", "t", "u", "place")
    assert Union((RAW, RAW.only("k"))).names == ("k", "t")


def test_a_query_is_printed_with_each_node_once() -> None:
    """
    One line for each node, with what is new in it.
    """
    rows = RAW.add(u="t % 3").without("t")

    assert printed(Union((rows, rows.where("u = 1")))).splitlines() == [
        "1: raw",
        "2: 1 select u = t % 3",
        "3: 2 select without t",
        "4: 3 where u = 1",
        "5: union of 3, 4",
    ]
    assert printed(_query()).splitlines()[1:] == [
        "2: 1 over k order by t: before = lag(t)",
        "3: 2 select t = -t, gap = t - before",
        "4: 3 where gap > 3",
        "5: 4 explode at = sequence(t, 0)",
        "6: 5 group by k, at: n = count(*)",
    ]
    assert printed(RAW.join(rows, [("k", "<=>", "u")])).splitlines()[-1] == "4: 1 join 3 on k <=> u"
    assert doctest.testmod(module).failed == 0


def test_a_step_that_makes_a_column_of_a_name_that_is_taken_hides_it() -> None:
    """
    Names are compared in any case; a name that only an earlier step had is free.
    """
    taken = RAW.over(["k"], T="row_number()")

    assert hidden_in(_query()) == {"t"}
    assert hidden_in(taken) == {"t"}
    assert hidden_in(RAW.explode("K", "array(1)")) == {"k"}
    assert hidden_in(RAW.join(RAW.select(K="t"), [("t", "=", "K")])) == {"k"}
    assert hidden_in(RAW.group(["k"]).add(t="1").only("t", "k")) == set()
