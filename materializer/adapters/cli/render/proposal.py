"""``plan --definitions``: what applying definitions would do, as text, JSON, or a comment for a pull request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from materializer.adapters.cli.render.apply import problem_lines
from materializer.adapters.cli.render.markdown import block, code, escaped, folded, table
from materializer.adapters.cli.render.plan import not_active
from materializer.adapters.cli.render.result import DONE, IDLE, Result, value_form
from materializer.adapters.cli.words import count, duration, labelled, size, wrapped
from materializer.errors import DefinitionError
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.errors import Problem
    from materializer.services.versions.proposal import (
        ChangedReader,
        ChangePrice,
        DefinitionsPlan,
        PlannedChange,
    )

MARK: Final = "<!-- materializer plan -->"
"""The first line of a comment, by which a bot finds the one that it wrote before."""
_KINDS: Final = {
    "new": "new",
    "unchanged": "unchanged",
    "metadata": "metadata only",
    "measures": "what it shows",
    "data": "its data",
}
_NEXT: Final = {
    "replaced": "replaces the version that is being built",
    "building": "is being built already",
    "switched": "is published at once: nothing was refreshed yet",
    "abandoned": "gives the next version up",
}
_HEADER: Final = ("aggregate", "change", "price", "reads", "computed by", "read by")


class ProposalResult(Result, frozen=True):
    """What applying definitions would do; *is_markdown* as a comment."""

    plan: DefinitionsPlan
    is_markdown: bool = False

    @property
    def exit_status(self) -> int:
        if self.plan.problems:
            return DefinitionError.exit_status
        changed = any(not c.is_unchanged for c in self.plan.changes)
        return DONE if changed else IDLE

    def form(self) -> dict[str, Any]:
        return {
            "definitions": [_change_form(c) for c in self.plan.changes],
            "seconds": round(self.plan.seconds, 3),
            "warnings": [_problem_form(p) for p in self.plan.warnings],
            "problems": [_problem_form(p) for p in self.plan.problems],
        }

    def lines(self, width: int) -> Iterator[str]:
        yield from self._comment() if self.is_markdown else self._text(width)

    # -- text ------------------------------------------------------------------------------------------------------------

    def _text(self, width: int) -> Iterator[str]:
        for word, found in (("problem", self.plan.problems), ("warning", self.plan.warnings)):
            for problem in found:
                first, *rest = problem_lines(problem, width)
                yield f"{word}: {first}"
                yield from rest
        for planned in self.plan.changes:
            yield from wrapped(_change_text(planned), f"{planned.change.name}: ", width=width)
            price = planned.price
            pairs = [("reads", _chain_text(planned)), ("price", _price_text(planned))]
            if price is not None:
                pairs += [("rows", _rows_text(price)), ("computed", _executor_text(price))]
            pairs += [("read by", "; ".join(map(_reader_text, planned.readers)))]
            pairs += not_active(planned.change.waiting_checks)
            yield from labelled(pairs, width=width)
            for line in planned.change.differences:
                yield from wrapped(line, "    ", width=width)
        yield self._summary()

    # -- comment ---------------------------------------------------------------------------------------------------------

    def _comment(self) -> Iterator[str]:
        changed = [c for c in self.plan.changes if not c.is_unchanged]
        same = [c.change.name for c in self.plan.changes if c not in changed]
        yield MARK
        yield "### Changes of aggregates"
        yield ""
        yield f"{escaped(self._summary())}."
        yield ""
        if self.plan.problems:
            yield "These definitions cannot be applied, and until they can be, none of this change is:"
            yield ""
            rows = [(code(_place(p)), code(p.code), escaped(p.message), escaped(p.hint)) for p in self.plan.problems]
            yield from table(("where", "problem", "what is wrong", "what to do"), rows)
            yield ""
        if changed:
            yield from table(_HEADER, [_row(c) for c in changed])
            yield ""
        for planned in changed:
            if planned.change.differences:
                yield from folded(
                    f"What differs in {code(planned.change.name)}".replace("`", ""),
                    block(planned.change.differences, "diff"),
                )
                yield ""
        broken = [(c.change.name, r) for c in changed for r in c.readers if r.problem]
        if broken:
            yield "Aggregates that could not be refreshed after this change is published:"
            yield ""
            yield from table(
                ("aggregate", "reads", "why"), [(code(r.name), code(name), escaped(r.problem)) for name, r in broken]
            )
            yield ""
        checks = [(c.change.name, check) for c in changed for check in c.change.waiting_checks]
        if checks:
            yield "Checks that do not hold for what is published before the next version is built:"
            yield ""
            cells = [
                (code(name), code(c.expectation), escaped(", ".join(c.columns)), escaped(c.why)) for name, c in checks
            ]
            yield from table(("aggregate", "check", "columns", "why"), cells)
            yield ""
        if self.plan.warnings:
            yield "Warnings:"
            yield ""
            rows = [(code(_place(p)), code(p.code), escaped(p.message), escaped(p.hint)) for p in self.plan.warnings]
            yield from table(("where", "code", "warning", "what to do"), rows)
            yield ""
        if same:
            yield f"Unchanged: {', '.join(code(name) for name in same)}."

    def _summary(self) -> str:
        plan = self.plan
        changed = [c for c in plan.changes if not c.is_unchanged]
        parts = [f"{len(changed)} of {count(len(plan.changes), 'definition')} would change"]
        if not plan.changes:
            parts = ["no definition can be applied" if plan.problems else "no definitions found"]
        if plan.seconds:
            parts.append(f"computing takes about {duration(plan.seconds)}")
        if plan.problems:
            parts.append(count(len(plan.problems), "problem"))
        return f"{', '.join(parts)}; nothing was written"


def _row(planned: PlannedChange) -> tuple[str, ...]:
    """Return the cells of one definition."""
    price = planned.price
    kind = escaped(_kind(planned))
    parts = ", ".join(code(part) for part in planned.parts) if planned.change.kind != "new" else ""
    next_ = escaped(_next(planned))
    change = ": ".join(part for part in (kind, parts) if part) + (f"; {next_}" if next_ else "")
    readers = ", ".join(code(r.name) + (" (**breaks**)" if r.problem else "") for r in planned.readers)
    return (
        code(planned.change.name),
        change,
        escaped(_price_text(planned)),
        "" if price is None else escaped(_rows_text(price)),
        "" if price is None else escaped(_executor_text(price)),
        readers or "nothing",
    )


def _next(planned: PlannedChange) -> str:
    if planned.follows:
        return f"is built again once the next version of '{planned.follows}' is published"
    return _NEXT.get(planned.change.next, "")


def _kind(planned: PlannedChange) -> str:
    return _KINDS.get(planned.change.kind, planned.change.kind)


def _change_text(planned: PlannedChange) -> str:
    next_ = _next(planned)
    parts = ", ".join(planned.parts) if planned.change.kind not in {"new", "unchanged"} else ""
    kind = ": ".join(part for part in (_kind(planned), parts) if part)
    return f"{kind}; {next_}" if next_ else kind


def _price_text(planned: PlannedChange) -> str:
    """Return the price of a change in words."""
    price = planned.price
    if price is not None:
        return f"about {duration(price.seconds)} in {count(price.runs, 'run')}" if price.rows else "nothing to read yet"
    if planned.follows:
        return f"not known before '{planned.follows}' is built"
    if planned.change.kind in {"metadata", "unchanged"}:
        return "nothing is computed"
    return "not known: its source does not exist yet, or cannot be read"


def _rows_text(price: ChangePrice) -> str:
    what = "stored row" if price.strategy == "stored partials" else "row"
    return f"about {count(price.rows, what)}, {size(price.bytes)} in {count(price.files, 'file')}"


def _executor_text(price: ChangePrice) -> str:
    return "this process" if price.executor == "local" else f"Spark: {price.reason}"


def _chain_text(planned: PlannedChange) -> str:
    return " → ".join((*planned.reads, planned.change.name)) if planned.reads else ""


def _reader_text(reader: ChangedReader) -> str:
    return f"{reader.name} (breaks: {reader.problem})" if reader.problem else reader.name


def _place(problem: Problem) -> str:
    if problem.line:
        return f"{problem.file or 'definition'}:{problem.line}:{problem.column}"
    return problem.file or problem.message.partition(":")[0]


def _change_form(planned: PlannedChange) -> dict[str, Any]:
    change = planned.change
    return {
        "name": change.name,
        "kind": change.kind,
        "next": change.next,
        "parts": list(planned.parts),
        "differences": list(change.differences),
        "source": change.source,
        "source_version": change.source_version,
        "price": None if planned.price is None else as_dict(planned.price),
        "reads": list(planned.reads),
        "readers": [as_dict(r) for r in planned.readers],
        "follows": planned.follows or None,
        "sample": change.sample,
        "waiting_checks": value_form([as_dict(check) for check in change.waiting_checks]),
    }


def _problem_form(problem: Problem) -> dict[str, Any]:
    return {f: getattr(problem, f) for f in ("code", "message", "hint", "file", "line", "column")}
