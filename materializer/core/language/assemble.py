"""Turns a draft into a spec, with the checks that need more than one part of a definition.

A column of SELECT or HAVING outside of an aggregate call must be a key. It is replaced by the key's output name, because
partials store keys under these names and store no other column of a source row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from sqlglot import exp

from materializer.core.language.draft import Draft, OutputColumn
from materializer.core.policy import retention
from materializer.core.policy.policies import problems_of
from materializer.core.spec.spec import NAME_LIMIT, AggregateSpec, Formula, GridSpec, Key, Measure
from materializer.core.sql.expressions import Expression, FunctionUse, Vocabulary, attempt
from materializer.core.sql.formulas import build_formula
from materializer.core.sql.functions import nearest
from materializer.core.sql.time_bucket import in_ticks, with_timezone
from materializer.core.sql.tokens import Fragment, Refused
from materializer.errors import Problem

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)
_BUCKET_CALLS: Final = ("window", "time_bucket", "window_time")
_OF_BUCKET: Final = ("start", "end", "time")
_OF_ROWS: Final = {
    "where": ("definition.aggregate-in-where", "WHERE", "write it in HAVING"),
    "key": ("definition.aggregate-in-key", "a key", "take it out of GROUP BY"),
}
"""By place: the code, the place in words and the hint of an aggregate where expressions are about single rows."""

Replacement: TypeAlias = tuple[int, int, "str | Formula"]


def plain_name(name: str) -> str:
    """Return a name with underscores in place of what a name cannot have; "" where this gives no name.

    Examples:
        >>> plain_name("Klima Tag"), plain_name("../bars"), plain_name("7 days")
        ('Klima_Tag', 'bars', '')
    """
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return plain if _NAME.match(plain) and len(plain) <= NAME_LIMIT else ""


def name_problem(name: str, what: str) -> tuple[str, str, str] | None:
    """Return the code, message and hint of a name that cannot name an aggregate or an output column; None for a good name."""
    code = "definition.bad-name" if what == "aggregate" else "definition.bad-column-name"
    if name.startswith("_") and what != "aggregate":
        return (
            code,
            f"the {what} name '{name}' begins with '_', which is kept for internal columns",
            "begin it with a letter",
        )
    if not _NAME.match(name):
        return (
            code,
            f"the {what} name '{name}' must be letters, digits and underscores, a letter first",
            f"write {slug}" if (slug := plain_name(name)) else "choose another name",
        )
    if len(name) > NAME_LIMIT:
        return code, f"the {what} name has {len(name)} characters, at most {NAME_LIMIT} are allowed", "shorten it"
    return None


def assemble(
    draft: Draft, python: frozenset[str], problems: list[Problem], warnings: list[Problem], *, since: int = 0
) -> AggregateSpec | None:
    """Return the spec of a draft; None after adding to *problems* what is wrong with the draft.

    Args:
        draft: The parts of the definition.
        python: Names of the user's Python aggregates.
        problems: List that receives problems.
        warnings: List that receives warnings about permitted parts that may fail later.
        since: Length of *problems* before anything of this definition was read.
    """
    vocabulary = Vocabulary(draft.qualifiers, frozenset(name.lower() for name in python))
    return _Assembly(draft, vocabulary, problems, warnings, since).run()


class _Assembly:
    def __init__(
        self, draft: Draft, vocabulary: Vocabulary, problems: list[Problem], warnings: list[Problem], since: int
    ) -> None:
        self.draft, self.vocabulary, self.problems, self.warnings = draft, vocabulary, problems, warnings
        self.since = since
        self.keys: dict[tuple[str, ...], Key] = {}
        self.measures: dict[str, Measure] = {}
        self.columns: dict[str, str] = {}

    def run(self) -> AggregateSpec | None:
        draft = self.draft
        self._check_names()
        keys = [key for output in draft.outputs if output.kind == "key" and (key := self._key(output))]
        for output in draft.outputs:
            if output.kind == "measure":
                self._measure(output)
        where = self._where(draft.where) if draft.where else None
        having = self._having(draft.having) if draft.having else None
        for column in (draft.time_column, *((draft.settings.sequence,) if draft.settings.sequence else ())):
            self.columns.setdefault(column.lower(), column)
        grid = with_timezone(self._grid(), draft.settings.timezone)
        self._check_policies(grid)
        if len(self.problems) > self.since:
            return None
        return AggregateSpec(
            name=draft.name,
            source=draft.source,
            time_column=draft.time_column,
            grid=grid,
            bucket_start=next((o.name for o in draft.outputs if o.kind == "start"), None),
            bucket_end=next((o.name for o in draft.outputs if o.kind == "end"), None),
            bucket_time=next((o.name for o in draft.outputs if o.kind == "time"), None),
            keys=tuple(keys),
            measures=tuple(self.measures.values()),
            columns=tuple(o.name for o in draft.outputs),
            where=where,
            having=having,
            resolution=draft.settings.resolution,
            sequence=draft.settings.sequence,
            reads=tuple(sorted(self.columns.values())),
            comment=draft.comment,
            properties=draft.settings.stored,
            sql=draft.sql,
        )

    def _check_policies(self, grid: GridSpec) -> None:
        settings = self.draft.settings
        for found in (problems_of, retention.problems_of):
            for key, *refusal in found(settings.sound, grid, settings.resolution):
                self._report(settings.places[key], *refusal)

    def _grid(self) -> GridSpec:
        return (
            in_ticks(self.draft.grid, self.draft.settings.resolution) if self.draft.is_origin_text else self.draft.grid
        )

    def _report(self, place: Fragment, code: str, message: str, hint: str, *, token: int = 0) -> None:
        self.problems.append(place.problem(code, message, hint, token=token))

    def _check_names(self) -> None:
        seen: dict[str, OutputColumn] = {}
        for output in self.draft.outputs:
            refusal = name_problem(output.name, "column") if output.name else None
            if refusal:
                self._report(output.place, *refusal)
            if output.name and output.name.lower() in seen:
                message = f"two output columns are called '{output.name}'"
                self._report(output.place, "definition.duplicate-column", message, "give one of them another name")
            if output.kind in _OF_BUCKET and any(o.kind == output.kind for o in seen.values()):
                message = f"the {output.kind} of the bucket is selected twice"
                self._report(output.place, "definition.duplicate-bucket", message, "keep one")
            seen.setdefault(output.name.lower(), output)

    def _read(self, expression: Expression, *, only_in_calls: bool = False) -> None:
        for column in expression.columns:
            if not only_in_calls or column not in expression.outer_columns:
                self.columns.setdefault(column.name.lower(), column.name)

    def _examine(self, fragment: Fragment, where: str) -> Expression | None:
        """Examine an expression over one source row, where aggregate calls are not allowed."""
        expression = attempt(self.problems, fragment, self.vocabulary)
        if expression is None:
            return None
        for use in expression.calls:
            code, what, hint = _OF_ROWS[where]
            self._report(
                fragment, code, f"`{use.name}` aggregates, and {what} is about single rows", hint, token=use.at
            )
        self._refuse_buckets(expression, "definition.misplaced-bucket")
        self._read(expression)
        return expression

    def _key(self, output: OutputColumn) -> Key | None:
        assert output.expression is not None
        expression = self._examine(output.expression, "key")
        if expression is None:
            return None
        key = Key(output.name, expression.text)
        self.keys.setdefault(expression.normal, key)
        return key

    def _where(self, fragment: Fragment) -> str | None:
        expression = self._examine(fragment, "where")
        return expression.text if expression else None

    def _measure(self, output: OutputColumn) -> None:
        assert output.expression is not None
        expression = attempt(self.problems, output.expression, self.vocabulary)
        if expression is None:
            return
        self._refuse_buckets(expression, "definition.bucket-in-measure")
        self._read(expression, only_in_calls=True)
        formula = self._formula(expression, list(self._replacements(expression, in_having=False)))
        if formula is not None:
            self.measures.setdefault(output.name.lower(), Measure(output.name, formula))

    def _having(self, fragment: Fragment) -> Formula | None:
        expression = attempt(self.problems, fragment, self.vocabulary)
        if expression is None:
            return None
        buckets = list(self._bucket_names(expression))
        self._refuse_buckets(expression, "definition.misplaced-bucket", allowed=buckets)
        self._read(expression, only_in_calls=True)
        replacements = [*buckets, *self._replacements(expression, in_having=True, taken=buckets)]
        self._refuse_shadowed_keys(expression, replacements)
        return self._formula(expression, replacements)

    def _refuse_shadowed_keys(self, expression: Expression, replaced: list[Replacement]) -> None:
        """Refuse what may repeat the expression of a key, of which one column has the name of an output: Spark compares the whole first."""
        runs = [(first, last) for first, last, _ in replaced if last > first]  # a single name may be that of the column
        runs += [(use.at, use.last) for use in expression.calls]
        left = [at for at in range(len(expression.fragment)) if not any(first <= at <= last for first, last in runs)]
        words = Counter(_compared(word) for at, word in enumerate(expression.fragment.normal) if at in left)
        names = {*self.measures, *(key.name.lower() for key in self.keys.values())}
        for column in expression.outer_columns:
            name = column.name.lower()
            for normal, key in self.keys.items():
                is_shadowed = column.at in left and name in names and name in normal and len(normal) > 1
                if is_shadowed and not Counter(_compared(word) for word in normal) - words:
                    message = f"`{key.sql}` is grouped by, and `{column.name}` alone is an output: HAVING may mean one or the other"
                    hint = f"write `{key.name}`, or give the output another name"
                    self._report(expression.fragment, "definition.ambiguous-group", message, hint, token=column.at)
                    return

    def _formula(self, expression: Expression, replacements: list[Replacement]) -> Formula | None:
        self._warn_of_divisions(expression)
        try:
            return build_formula(expression, replacements)
        except Refused as refused:
            self.problems.append(refused.problem)
            return None

    def _replacements(
        self, expression: Expression, *, in_having: bool, taken: list[Replacement] | None = None
    ) -> Iterator[Replacement]:
        """Yield replacements for keys and for other measures; report columns that are neither."""
        done = list(taken or ())
        for use in expression.functions:
            key = self.keys.get(expression.fragment.part(use.at, use.last + 1).normal)
            if key and not any(first <= use.at <= last for first, last, _ in done):
                done.append((use.at, use.last, f"`{key.name}`"))
                yield done[-1]
        for column in expression.outer_columns:
            if any(first <= column.at <= last for first, last, _ in done) or self._is_bucket(expression.chain(column)):
                continue
            key = self.keys.get(expression.chain(column)) or self.keys.get((column.name.lower(),))
            is_alias = in_having or column.name.lower() not in self.draft.columns
            if key is None and column.head == column.last and is_alias:
                key = next((k for k in self.keys.values() if k.name.lower() == column.name.lower()), None)
            measure = self.measures.get(column.name.lower()) if column.at == column.last and is_alias else None
            if key is not None:
                if key.name.lower() != column.name.lower() or column.head != column.last:
                    rest = expression.chain(column)[1:] if self.keys.get(expression.chain(column)) is None else ()
                    yield column.at, column.last, f"`{key.name}`" + "".join(rest)
            elif measure is not None:
                yield column.at, column.last, measure.formula
            elif not expression.problems:
                names = (*(m.name for m in self.measures.values()), *(k.name for k in self.keys.values()))
                hint = (nearest(column.name, names) if in_having else "") or self._hint_of_column(column.name)
                message = f"`{column.name}` is neither aggregated nor grouped"
                self._report(expression.fragment, "definition.not-grouped", message, hint, token=column.at)

    def _hint_of_column(self, name: str) -> str:
        """Return what mends a column outside of aggregates; where a key is made of it, another key would be another grouping."""
        made = [k.name for normal, k in self.keys.items() if len(normal) > 1 and name.lower() in normal]
        return (
            f"aggregate it, or write the key by its name: `{made[0]}`"
            if made
            else "aggregate it, or add it to GROUP BY"
        )

    def _bucket_names(self, expression: Expression) -> Iterator[Replacement]:
        """Yield the bucket's output name for each use of the bucket in HAVING."""
        names: dict[str, str] = {output.kind: output.name for output in self.draft.outputs if output.kind in _OF_BUCKET}
        for use in expression.functions:
            if self.draft.bucket and expression.fragment.part(use.at, use.last + 1).normal == self.draft.bucket.normal:
                kind, last = _field(expression.fragment, use)
                if kind in names:
                    yield use.at, last, f"`{names[kind]}`"
        for column in expression.outer_columns:
            chain = expression.chain(column)
            name = names.get(chain[2]) if self._is_bucket(chain) and len(chain) == 3 else None
            is_named = column.name.lower() in {n.lower() for n in names.values()} and chain not in self.keys
            if name or (is_named and len(chain) == 1):
                yield column.at, column.last, f"`{name or column.name}`"

    def _is_bucket(self, chain: tuple[str, ...]) -> bool:
        return chain[:1] == ("window",) and self.draft.bucket is not None and self.draft.bucket.normal[0] == "window"

    def _refuse_buckets(self, expression: Expression, code: str, *, allowed: list[Replacement] | None = None) -> None:
        hint = "select the bucket as a column of its own"
        for use in expression.functions:
            if use.name in _BUCKET_CALLS and not any(first <= use.at <= last for first, last, _ in allowed or ()):
                self._report(
                    expression.fragment,
                    code,
                    f"the bucket function `{use.name}` may not stand here",
                    hint,
                    token=use.at,
                )
        for column in expression.columns:
            chain = expression.chain(column)
            if self._is_bucket(chain) and not any(first <= column.at <= last for first, last, _ in allowed or ()):
                text = "".join(chain)
                self._report(
                    expression.fragment, code, f"the bucket `{text}` may not stand here", hint, token=column.at
                )

    def _warn_of_divisions(self, expression: Expression) -> None:
        index = {expression.fragment.tokens[use.at].start: use for use in expression.calls}
        for node in expression.tree.find_all(exp.Div, exp.IntDiv, exp.Mod):
            divisor = node.expression.unnest()
            if isinstance(divisor, exp.Anonymous) and str(divisor.this).lower() in ("nullif", "nullifzero", "greatest"):
                continue
            uses = [index[at] for part in divisor.find_all(exp.Expression) if (at := part.meta.get("start")) in index]
            uses = [use for use in uses if not _counts_all_rows(expression, use)]
            if uses:
                self.warnings.append(self._division(expression, uses[0]))

    def _division(self, expression: Expression, use: FunctionUse) -> Problem:
        text = expression.cut(use.at, use.last)
        sign = expression.fragment.tokens[use.at - 1].text if use.at else ""
        whole = sign == "/" and use.last == len(expression.fragment) - 1
        left = expression.cut(0, use.at - 2) if whole else "…"
        message = f"the division by `{text}` fails its whole bucket when that is zero"
        hint = f"write try_divide({left}, {text})"
        return expression.fragment.problem("definition.division-by-aggregate", message, hint, token=use.at)


def _counts_all_rows(expression: Expression, use: FunctionUse) -> bool:
    """Whether the call is a count(*) without filter, which is never zero in an existing group."""
    return use.name == "count" and use.last == use.closing and expression.fragment.tokens[use.at + 2].text in ("*", "1")


def _field(fragment: Fragment, use: FunctionUse) -> tuple[str, int]:
    """Return which end of the bucket a call selects, by the field that may follow it, and the last token of both."""
    following = [token.text.lower() for token in fragment.tokens[use.last + 1 : use.last + 3]]
    if use.name == "window":
        return (following[1], use.last + 2) if len(following) == 2 and following[0] == "." else ("", use.last)
    return "start", use.last


def _compared(word: str) -> str:
    return word.replace("<", ">")  # Spark takes `a < b` for `b > a`
