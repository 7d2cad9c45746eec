from __future__ import annotations

import json

import pytest
from hypothesis import given
from msgspec.structs import replace

from materializer.core.codec import as_json, from_json
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import BY_KEY, Lane, Plan, Recompute, Settle, TableBase, strategy_of
from materializer.core.time.spans import Span, SpanSet
from tests.model.strategies import plans


@given(plans())
def test_a_plan_survives_json(plan: Plan) -> None:
    """
    The journal gives back the plan that was made.
    """
    assert plan == from_json(Plan, json.loads(json.dumps(as_json(plan))))


@given(plans())
def test_a_plan_sums_up_its_steps(plan: Plan) -> None:
    """
    Its spans are those of the steps that write, its strategy names every step.
    """
    writing = [s for s in plan.steps if not isinstance(s, Settle)]

    assert plan.spans == SpanSet.union(s for step in writing for s in step.spans)
    assert plan.estimate.rows == sum(s.estimate.rows for s in writing)
    assert {strategy_of(s) for s in plan.steps} == set(plan.strategy.split("+")) - {"nothing"}


def by_key(*taken: Entry, spans: SpanSet) -> Plan:
    """Return a plan that computes the changed groups of some buckets."""
    base, steps = TableBase("t", 0), (Recompute(spans, "rows changed", keys=2),)
    return Plan("p", 1, 5, Span(0, 100), taken, steps, Lane.DRIVER, base, base)


def test_the_groups_of_a_plan_are_the_recorded_keys_of_the_buckets_that_are_computed_by_key() -> None:
    """
    An entry that reaches beyond these buckets counts inside of them; the journal gives the same groups back.
    """
    plan = by_key(
        Entry(Span(0, 30), 3, Cause.CHANGE, frozenset({("b",), (None,)})),
        Entry(Span(30, 40), 3, Cause.CHANGE, frozenset({("a",)})),
        Entry(Span(50, 60), 3, Cause.CHANGE),
        spans=SpanSet.of(Span(10, 40)),
    )

    assert ((Span(10, 30), ("b",)), (Span(10, 30), (None,)), (Span(30, 40), ("a",))) == plan.groups
    assert (SpanSet.of(Span(10, 40)), SpanSet(), BY_KEY) == (plan.keyed, plan.recomputed, plan.strategy)
    assert plan.groups == from_json(Plan, json.loads(json.dumps(as_json(plan)))).groups


def test_a_bucket_whose_keys_are_not_recorded_has_no_groups() -> None:
    """
    A plan that says otherwise is refused before anything is read.
    """
    plan = by_key(Entry(Span(0, 10), 3, Cause.CHANGE), spans=SpanSet.of(Span(0, 10)))
    with pytest.raises(ValueError, match="not known"):
        _ = plan.groups
    assert () == replace(plan, steps=()).groups
