"""Decomposes a definition into its layout: every aggregate call into its parts, with equal partials stored once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial as bind
from hashlib import sha256

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.aggregates import moments, ordered, positions, products, ranked, rollup, shape, simple, sketches
from materializer.core.aggregates.layout import Layout, PartialColumn
from materializer.core.aggregates.order import RowOrder, row_order
from materializer.core.aggregates.parts import (
    CallError,
    Parts,
    Tolerance,
    filtered,
    group,
    is_same,
    normalised,
    plain,
    type_of,
)
from materializer.core.aggregates.registry import ROLLS_UP, ROLLUP, AggregateFunction, find
from materializer.core.spec.spec import AggregateSpec, Call, Formula
from materializer.errors import DefinitionError, Problem


def decompose(spec: AggregateSpec, stored: Collection[str] | None = None) -> Layout:
    """Return the layout of *spec*, whose calls must carry the types of their arguments.

    Args:
        spec: The definition.
        stored: Names of the partials of its table, which an earlier release may have made: there two partials may be one.

    Raises:
        DefinitionError: With all problems of the definition: a wrong number of arguments, a DISTINCT or WITHIN GROUP without
            meaning there, or a call that needs an order of rows where there is none.
        ValueError: If a call that depends on the types of its arguments does not carry them.
    """
    formulas = [(m.name, m.formula) for m in spec.measures]
    having = [("HAVING", spec.having)] if spec.having else []
    if spec.rolls_up is None:
        order, sums, counts = row_order(spec), _sums(f for _, f in formulas + having), simple.row_count()
        taken = _Taker(lambda call: parts_of(call, order, is_summed=_is_summed(call, sums)))
    else:
        below, counts = decompose(spec.rolls_up), rollup.row_count()
        taken = _Taker(bind(_rolled_up, spec.rolls_up, below))
    taken.stored = stored
    measures = [(name, formula, taken.apart(name, formula)) for name, formula in formulas]
    filters = [(formula, taken.apart(name, formula)) for name, formula in having]
    taken.refuse_together([(n, c) for n, f in formulas + having for c in f.calls])
    if taken.problems:
        raise DefinitionError(taken.problems)
    every = [p for *_, parts in measures for p in parts] + [p for _, parts in filters for p in parts]
    every_call = [c for _, f in formulas + having for c in f.calls]
    counted = () if spec.is_engine else (counts,)
    return Layout(
        partials=_once([*(p for parts in every for p in parts.partials), *counted]),
        finals=tuple((n, _filled(f, [p.final for p in parts])) for n, f, parts in measures),
        having=_filled(filters[0][0], [p.final for p in filters[0][1]]) if filters else None,
        reference=tuple((n, _filled(f, [p.reference for p in parts])) for n, f, parts in measures),
        having_reference=_filled(filters[0][0], [p.reference for p in filters[0][1]]) if filters else None,
        not_mergeable=_reasons(p.not_mergeable for p in every),
        tolerances=tuple((n, _loosest(parts)) for n, _, parts in measures),
        brackets=tuple(
            (n, *parts[0].bracket) for n, f, parts in measures if _is_bare(f) and parts[0].bracket is not None
        ),
        row_count=counted[0].name if counted else None,
        not_retractable=_not_retractable(spec, every_call, every),
    )


def _not_retractable(spec: AggregateSpec, calls: Iterable[Call], parts: Iterable[Parts]) -> tuple[str, ...]:
    """Return why rows cannot be subtracted from partials."""
    if spec.rolls_up is not None:
        return ("rows of a roll-up are partials, which are not subtracted",)
    every = list(parts)
    stored, found = {p.name for one in every for p in one.partials}, []
    for call, one in zip(calls, every, strict=True):
        shown = call.text or call.function
        texts = [p.retract for p in one.partials]
        if None in texts:
            found.append(f"{shown} cannot be subtracted exactly")
        elif any(set(rollup.names_in(text or "")) - stored for text in texts):
            found.append(f"{shown} cannot be subtracted without the count of its values")
    return _reasons(found)


def parts_of(call: Call, order: RowOrder, *, is_summed: bool = False) -> Parts:
    """Decompose one call.

    Args:
        call: The call, with the types of its arguments.
        order: The order of rows in the definition.
        is_summed: Whether the definition also has the sum of the same argument.

    Raises:
        CallError: If the call cannot be accepted.
    """
    aggregate = find(call.function)
    if aggregate is None:
        return _foreign(call)
    _check(call, aggregate)
    call = replace(call, function=aggregate.name)
    if call.distinct and aggregate.distinct == "recompute" and aggregate.family not in ("list", "listagg"):
        exact = call.function in ("count", "bit_xor") or (call.function == "sum" and _is_whole(call))
        return ordered.recompute(call, plain(call.function, call.args, call.where, distinct=True), is_exact=exact)
    return _FAMILIES[aggregate.family](call, order, is_summed)


class _Taker(Struct):
    """Decomposes formulas and collects their problems."""

    take: Callable[[Call], Parts]
    problems: list[Problem] = field(default_factory=list)
    builds: dict[str, str] = field(default_factory=dict)
    stored: Collection[str] | None = None

    def apart(self, name: str, formula: Formula) -> list[Parts]:
        return [p for p in (self._one(name, call) for call in formula.calls) if p is not None]

    def refuse_together(self, calls: list[tuple[str, Call]]) -> None:
        """Refuse a combination that Spark accepts but cannot plan: WITHIN GROUP of ``listagg`` beside DISTINCT aggregates."""
        lists = [name for name, c in calls if c.function in ("listagg", "string_agg") and c.order_by is not None]
        others = [name for name, c in calls if (c.distinct or c.function == "nunique") and name not in lists]
        if lists and others:
            message = (
                f"measure '{lists[0]}': listagg WITHIN GROUP cannot stand beside DISTINCT in measure '{others[0]}'"
            )
            hint = "leave WITHIN GROUP out, which sorts by the value, or make two aggregates"
            self.problems.append(Problem("definition.not-together", message, hint, about=lists[0]))

    def _one(self, name: str, call: Call) -> Parts | None:
        try:
            return _told_apart(self.take(call), self.builds, self.stored)
        except CallError as error:
            message = f"measure '{name}': {error.message}"
            self.problems.append(Problem(error.code, message, error.hint, about=name))
            return None


def _told_apart(parts: Parts, builds: dict[str, str], stored: Collection[str] | None) -> Parts:
    """Return the parts of a call with another name for each partial whose name stands for other rows or values already.

    Args:
        parts: The parts.
        builds: How each partial of the calls before it is built, by name; those of this call are added.
        stored: The names that may be given; None for any.
    """
    taken = [p for p in parts.partials if not is_same(builds.setdefault(p.name, p.build), p.build)]
    for name, build in ((p.name, p.build) for p in taken):
        other = f"p_{sha256(normalised(build).encode()).hexdigest()[:12]}"
        if stored is not None and other not in stored:
            continue
        renamed = bind(re.sub, rf"\b{name}\b", other)
        partials = tuple(
            replace(
                p,
                name=renamed(p.name),
                merge=None if p.merge is None else renamed(p.merge),
                retract=None if p.retract is None else renamed(p.retract),
            )
            for p in parts.partials
        )
        parts = replace(parts, partials=partials, final=renamed(parts.final))
        builds[other] = build
    return parts


def _rolled_up(spec: AggregateSpec, layout: Layout, call: Call) -> Parts:
    if call.function != ROLLUP:
        message = f"{call.text or call.function} stands beside `rollup`, which reads partials and not rows"
        raise CallError("definition.rollup-mixed", message, "write rollup(measure), or make two aggregates")
    _check(call, ROLLS_UP)
    return rollup.parts_of(call, spec, layout)


def _sums(formulas: Iterable[Formula]) -> dict[str, str]:
    calls = (c for f in formulas for c in f.calls)
    return {simple.sum_name(c): simple.sum_text(c) for c in calls if c.function == "sum" and not c.distinct}


def _is_summed(call: Call, sums: Mapping[str, str]) -> bool:
    """Return whether there is the sum of the same argument."""
    found = sums.get(simple.sum_name(call))
    return found is not None and is_same(found, simple.sum_text(call))


def _filled(formula: Formula, texts: list[str]) -> str:
    return formula.fill([t if t.isidentifier() else f"({t})" for t in texts])


def _is_bare(formula: Formula) -> bool:
    return len(formula.calls) == 1 and all(not isinstance(p, str) or not p.strip() for p in formula.pieces)


def _once(partials: Iterable[PartialColumn]) -> tuple[PartialColumn, ...]:
    return tuple({p.name: p for p in partials}.values())


def _reasons(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(t for t in texts if t))


def _loosest(parts: list[Parts]) -> Tolerance:
    found: set[Tolerance] = {p.tolerance for p in parts}
    return "rank" if "rank" in found else "float" if "float" in found else "exact"


def _is_whole(call: Call) -> bool:
    return bool(call.types) and (call.types[0].endswith("int") or call.types[0].startswith("decimal"))


def _check(call: Call, aggregate: AggregateFunction) -> None:
    shown = call.text or call.function
    given, most = len(call.args), aggregate.most
    if given < aggregate.least or (most is not None and given > most):
        expected = str(aggregate.least) if most == aggregate.least else f"{aggregate.least} to {most or 'any number'}"
        raise CallError("definition.wrong-arguments", f"{shown} has {given} arguments, expected {expected}")
    if "*" in call.args and aggregate.name != "count":
        raise CallError("definition.wrong-arguments", f"{shown} cannot take *, only count can")
    if call.distinct and (aggregate.distinct == "refused" or "*" in call.args):
        raise CallError("definition.wrong-arguments", f"{shown} cannot take DISTINCT", "leave DISTINCT out")
    takes_order = aggregate.family in ("within_group", "listagg", "mode")
    if call.order_by is not None and not takes_order:
        raise CallError("definition.wrong-arguments", f"{shown} cannot take WITHIN GROUP", "leave it out")
    if call.order_by is None and (aggregate.family == "within_group" or (aggregate.family == "mode" and not given)):
        raise CallError(
            "definition.wrong-arguments", f"{shown} needs WITHIN GROUP", "write WITHIN GROUP (ORDER BY column)"
        )


def _foreign(call: Call) -> Parts:
    parts = ordered.recompute(call, plain(call.function, call.args, call.where, distinct=call.distinct), is_exact=False)
    return replace(parts, partials=tuple(replace(p, is_foreign=True) for p in parts.partials))


def _mode(call: Call) -> Parts:
    if call.order_by is not None:
        return _within_group(call)
    # With the flag Spark chooses the smallest of the most frequent values, whatever the user's flag is.
    return ordered.recompute(call, plain("mode", (call.args[0], "true"), call.where))


def _within_group(call: Call) -> Parts:
    inside = ", ".join(map(group, call.args))
    text = f"{call.function}({inside}) WITHIN GROUP (ORDER BY {call.order_by}\n)"
    return ordered.recompute(call, filtered(text, call.where), is_exact=call.function == "mode")


def _listagg(call: Call) -> Parts:
    x = group(call.args[0])
    inside = ("DISTINCT " if call.distinct else "") + ", ".join(map(group, call.args))
    if call.order_by is None and type_of(call) == "string":
        # Without WITHIN GROUP, which Spark cannot plan beside several DISTINCT aggregates.
        gathered = plain("collect_set" if call.distinct else "collect_list", (x,), call.where)
        between = f"coalesce({group(call.args[1])}, '')" if len(call.args) > 1 else "''"
        counted = plain("count", (x,), call.where)
        joined = f"if({counted} = 0, NULL, array_join(sort_array({gathered}), {between}))"
        return ordered.recompute(call, joined)
    # Rows that are equal in the given order may differ in the value; with the value as last key they cannot.
    keys = x if call.order_by is None else call.order_by if call.distinct else f"{call.order_by}\n, {x}"
    return ordered.recompute(call, filtered(f"listagg({inside}) WITHIN GROUP (ORDER BY {keys}\n)", call.where))


def _set(call: Call) -> Parts:
    return ordered.recompute(call, f"sort_array({plain('collect_set', call.args, call.where)})")


def _value(call: Call) -> Parts:
    return ordered.recompute(call, plain(call.function, call.args, call.where))


def _percentile(call: Call) -> Parts:
    return ordered.recompute(call, plain(call.function, call.args, call.where), is_exact=False)


def _alone(take: Callable[[Call], Parts]) -> Callable[[Call, RowOrder, bool], Parts]:
    return bind(_ignore_rest, take)


def _ignore_rest(take: Callable[[Call], Parts], call: Call, _order: RowOrder, _is_summed: bool) -> Parts:  # noqa: FBT001
    return take(call)


def _ordered(take: Callable[[Call, RowOrder], Parts]) -> Callable[[Call, RowOrder, bool], Parts]:
    return lambda call, order, _is_summed: take(call, order)


_FAMILIES: dict[str, Callable[[Call, RowOrder, bool], Parts]] = {
    "same": _alone(simple.same),
    "count": _alone(simple.count),
    "sum": _alone(simple.total),
    "avg": lambda call, _order, is_summed: simple.average(call, is_summed=is_summed),
    "try_sum": _alone(lambda call: simple.tried_total(call) or _value(call)),
    "try_avg": lambda call, _order, is_summed: simple.tried_average(call, is_summed=is_summed) or _value(call),
    "value": _alone(_value),
    "variance": _alone(moments.variance),
    "comoment": _alone(moments.comoment),
    "end": _ordered(ordered.end_of_order),
    "extreme_by": _ordered(ordered.extreme_by),
    "list": _ordered(ordered.list_of),
    "hll": _alone(sketches.distinct_count),
    "kll": _alone(sketches.quantile),
    "set": _alone(_set),
    "mode": _alone(_mode),
    "within_group": _alone(_within_group),
    "listagg": _alone(_listagg),
    "percentile": _alone(_percentile),
    "sem": _alone(moments.standard_error),
    "shape": _alone(shape.shape),
    "powers": _alone(products.sum_of_powers),
    "weighted_sum": _alone(products.weighted_sum),
    "weighted_average": _alone(products.weighted_average),
    "product": _alone(products.product),
    "end_but": _ordered(ordered.end_but),
    "at_extreme": _ordered(ordered.at_extreme),
    "position_of_value": _ordered(positions.position_of_value),
    "position_of_extreme": _ordered(positions.position_of_extreme),
    "quantile": _alone(ranked.quantile),
    "kth_smallest": _alone(ranked.kth_smallest),
    "distinct_values": _alone(ranked.distinct_values),
    "rollup": _alone(rollup.refuse),
}
