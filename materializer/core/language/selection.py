"""Matches SELECT with GROUP BY: decides which output columns are the bucket, keys and measures.

GROUP BY may repeat an expression, name its alias, give its position, or be ALL, for which SELECT DISTINCT stands too. As in
Spark, a name is a column of the source before it is an alias; the columns are known when a definition meets its source. Two expressions are the same when their
tokens are the same, apart from case, comments and a qualifier of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import TokenType, exp

from materializer.core.dialect import is_name
from materializer.core.language.draft import OutputColumn
from materializer.core.sql import foreign
from materializer.core.sql import functions as known
from materializer.core.sql.expressions import Vocabulary, attempt
from materializer.core.sql.time_bucket import Bucket, bucket_form, read_bucket
from materializer.core.sql.tokens import Fragment, Refused, words
from materializer.errors import Problem


class Selection(Struct, frozen=True):
    """The bucket and all output columns."""

    bucket: Bucket
    outputs: tuple[OutputColumn, ...]


class Item(Struct, frozen=True):
    """One item of SELECT; ``name`` is "" for an item that needs an alias and has none."""

    expression: Fragment
    name: str
    place: Fragment


def select_outputs(
    select: Fragment,
    group: Fragment,
    qualifiers: frozenset[str],
    problems: list[Problem],
    columns: frozenset[str] = frozenset(),
) -> Selection | None:
    """Return the bucket and the outputs; None after adding to *problems* why there is no bucket.

    Args:
        select: The tokens after SELECT.
        group: The tokens after GROUP BY.
        qualifiers: Lower-case names that may stand before a column of the source.
        problems: List that receives problems.
        columns: Lower-case names of the columns of the source, if they are known.
    """
    items = [item for piece in select.split() if (item := item_of(piece, problems))]
    try:
        return _Matching(items, qualifiers, problems, columns).run(group)
    except Refused as refused:
        problems.append(refused.problem)
        return None


def item_of(piece: Fragment, problems: list[Problem]) -> Item | None:
    """Return an item of SELECT with its name; None after adding to *problems* why it cannot be read."""
    if piece.tokens and words(piece.tokens[-1:]) == "*" and (len(piece) == 1 or words(piece.tokens[-2:]) == ". *"):
        problems.append(piece.problem("definition.star", "SELECT * hides which columns are read", "name the columns"))
        return None
    try:
        tree = piece.tree()
        if not isinstance(tree, exp.Alias):
            return Item(replace(piece, parsed=tree), _own_name(piece), piece)
        alias = tree.args["alias"]
        at = next((i for i, t in enumerate(piece.tokens) if t.start == alias.meta.get("start")), 0)
        if not at:
            raise piece.refused("definition.syntax", f"`{piece.text}` is not understood", "write expression AS name")
        end = at - 1 if piece.tokens[at - 1].token_type == TokenType.ALIAS else at
        return Item(replace(piece.part(0, end), parsed=tree.this), alias.name, piece.part(at))
    except Refused as refused:
        problems.append(refused.problem)
        return None


def group_pieces(clauses: Mapping[str, Fragment], columns: frozenset[str] = frozenset()) -> list[Fragment]:
    """Return the items of GROUP BY as :func:`group_expressions`, with the call in place of a field of a window."""
    found = group_expressions(clauses, columns)
    return [piece.part(0, piece.closing(1) + 1) if _is_window(piece) else piece for piece in found]


def group_expressions(clauses: Mapping[str, Fragment], columns: frozenset[str] = frozenset()) -> list[Fragment]:
    """Return the items of GROUP BY, with the expression in place of a position and of the alias of a window.

    Args:
        clauses: The clauses of a statement.
        columns: Lower-case names of the columns of the source, if they are known; these count before an alias.
    """
    group = clauses.get("GROUP BY")
    if group is None:
        return []
    items = [item_of(piece, []) for piece in clauses["SELECT"].split()]
    calls = {i.name.lower(): i.expression for i in items if i is not None and _is_window(timed_window(i.expression))}
    is_all = len(group) == 1 and group.tokens[0].token_type == TokenType.ALL
    found = list(calls.values()) if is_all else []
    for piece in [] if is_all else group.split():
        text = piece.text.lower()
        at = int(text) if text.isascii() and text.isdigit() else 0
        item = items[at - 1] if 1 <= at <= len(items) else None
        found.append(item.expression if item else piece if text in columns else calls.get(text, piece))
    bare = [(piece, timed_window(piece)) for piece in found]
    return [window for piece, window in bare if window is piece or _is_window(window)]


def _is_window(fragment: Fragment) -> bool:
    return words(fragment.tokens[:2]) in ("WINDOW (", "SESSION_WINDOW (")


def timed_window(fragment: Fragment) -> Fragment:
    """Return the window whose last instant a call of `window_time` is; other fragments as they are."""
    is_call = words(fragment.tokens[:2]) == "WINDOW_TIME (" and fragment.closing(1) == len(fragment) - 1
    return fragment.part(2, -1) if is_call and len(fragment) > 3 else fragment


def rest_of(clauses: Mapping[str, Fragment], qualifiers: frozenset[str]) -> Iterator[Problem]:
    """Yield the problems of the expressions of a statement that divides no time; unknown functions are looked for elsewhere."""
    found: list[Problem] = []
    items = [item for piece in clauses["SELECT"].split() if (item := item_of(piece, found))]
    found += [_without_alias(item) for item in items if not item.name and words(item.expression.tokens[:1]) != "*"]
    for fragment in (*(i.expression for i in items), *(clauses[c] for c in ("WHERE", "HAVING") if c in clauses)):
        attempt(found, fragment, Vocabulary(qualifiers))
    yield from (problem for problem in found if problem.code != "definition.unknown-function")


def _without_alias(item: Item) -> Problem:
    return item.place.problem("definition.missing-alias", f"`{item.expression.text}` has no name", "add AS name")


def _own_name(piece: Fragment) -> str:
    return piece.tokens[-1].text if _is_chain(piece) else ""


def _is_name_or_place(piece: Fragment) -> bool:
    """Whether the fragment is one plain name or number, which needs no parser."""
    return len(piece) == 1 and piece.tokens[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER)


def _is_chain(piece: Fragment) -> bool:
    """Whether the fragment consists of names with dots between them."""
    tokens = enumerate(piece.tokens)
    return len(piece) % 2 == 1 and all(is_name(t) if at % 2 == 0 else t.token_type == TokenType.DOT for at, t in tokens)


def _called(fragment: Fragment) -> set[str]:
    """Return the names of the functions that are called."""
    following = zip(fragment.tokens, fragment.tokens[1:], strict=False)
    return {a.text.lower() for a, b in following if b.token_type == TokenType.L_PAREN}


class _Matching:
    def __init__(
        self, items: list[Item], qualifiers: frozenset[str], problems: list[Problem], columns: frozenset[str]
    ) -> None:
        self.items, self.qualifiers, self.problems, self.columns = items, qualifiers, problems, columns
        self.failed: Refused | None = None

    def run(self, group: Fragment) -> Selection:
        grouped = self._grouped(group)
        bucket = self._bucket(grouped, group)
        window = bucket.form == "window"
        normal = self._normal(bucket.fragment)
        keys = [g for g in grouped if self._normal(g) not in self._bucket_forms(normal)]
        selected: set[tuple[str, ...]] = set()
        outputs = []
        key_forms = {self._normal(key) for key in keys}
        grouped_forms = {self._normal(piece) for piece in grouped}
        for item in self.items:
            kind = self._kind(item, normal, key_forms - selected, grouped_forms - selected)
            if kind == "key":
                selected.add(self._normal(item.expression))
            if not item.name:
                self.problems.append(_without_alias(item))
            outputs.append(OutputColumn(item.name, kind, item.expression, item.place))
        for key in keys:
            if self._normal(key) not in selected:
                self._report(
                    key, "definition.key-not-selected", f"`{key.text}` is grouped but not selected", "add it to SELECT"
                )
        if not any(output.kind in ("start", "end", "time") for output in outputs):
            what = "window.start AS bucket" if window else f"{bucket.fragment.text} AS bucket"
            self._report(
                bucket.fragment, "definition.bucket-not-selected", "the bucket is not selected", f"add {what} to SELECT"
            )
        return Selection(bucket, tuple(outputs))

    def _report(self, place: Fragment, code: str, message: str, hint: str) -> None:
        self.problems.append(place.problem(code, message, hint))

    def _normal(self, fragment: Fragment) -> tuple[str, ...]:
        """Return the normal form, without a qualifier of the source before a name."""
        normal, kept, skip = fragment.normal, [], False
        for at, word in enumerate(normal):
            is_qualifier = (
                word in self.qualifiers and normal[at + 1 : at + 2] == (".",) and normal[at - 1 : at] != (".",)
            )
            if not skip and not is_qualifier:
                kept.append(word)
            skip = is_qualifier
        return tuple(kept)

    def _bucket_forms(self, normal: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
        ends = [(".", "start"), (".", "end")] if normal[0] == "window" else []
        times = self._times(normal)
        return [normal, *((*normal, *end) for end in ends), *(("window", *end) for end in ends), *times]

    def _times(self, normal: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the normal forms of the last instant of a bucket."""
        windows = [normal, ("window",)] if normal[0] == "window" else []
        return [("window_time", "(", *window, ")") for window in windows]

    def _kind(
        self, item: Item, normal: tuple[str, ...], keys: set[tuple[str, ...]], grouped: set[tuple[str, ...]]
    ) -> Literal["start", "end", "time", "key", "measure"]:
        own, window = self._normal(item.expression), normal[0] == "window"
        times = self._times(normal)
        if own in times:
            if grouped.isdisjoint(times):
                message = f"`{item.expression.text}` is selected, and not grouped"
                hint = "add it to GROUP BY, beside the window or in its place, as Spark needs"
                self._report(item.place, "definition.not-grouped", message, hint)
            return "time"
        if own in self._bucket_forms(normal) and grouped <= {*times, *keys}:
            message = f"`{item.expression.text}` is selected, and only its last instant is grouped"
            self._report(item.place, "definition.not-grouped", message, "add the window to GROUP BY, as Spark needs")
        if window and own in (("window",), normal):
            self._report(
                item.place,
                "definition.window-struct",
                "`window` alone is a pair of times",
                "select window.start AS bucket",
            )
            return "start"
        if window and own[-2:-1] == (".",) and own[:-2] in (("window",), normal) and own[-1] in ("start", "end"):
            return "start" if own[-1] == "start" else "end"
        if own == normal:
            return "start"
        form = bucket_form(timed_window(item.expression))
        if form in known.BUCKETS or (form == "date_trunc" and normal[0] == "date_trunc" and own not in keys):
            message = f"`{item.expression.text}` is selected, but GROUP BY divides time by another bucket"
            self._report(item.place, "definition.bucket-differs", message, "write the same expression in both")
            return "start"
        return "key" if own in keys else "measure"

    def _grouped(self, group: Fragment) -> list[Fragment]:
        if len(group) == 1 and group.tokens[0].token_type in (TokenType.ALL, TokenType.DISTINCT):
            rows = [item.expression for item in self.items if self._is_row_expression(item.expression)]
            called = [i.expression for i in self.items if _called(i.expression) & known.AGGREGATES]
            if called and group.tokens[0].token_type == TokenType.DISTINCT:
                message = f"`{called[0].text}` aggregates, and SELECT DISTINCT groups by all that it selects"
                hint = "write GROUP BY in place of DISTINCT"
                raise called[0].refused("definition.select-distinct", message, hint)
            return rows
        grouped: dict[tuple[str, ...], Fragment] = {}
        for piece in group.split():
            try:
                if not _is_name_or_place(piece):
                    piece.tree()
                found = self._resolved(piece, grouped)
                grouped.setdefault(self._normal(found), found)
            except Refused as refused:
                self.problems.append(refused.problem)
                self.failed = refused
        return list(grouped.values())

    def _is_row_expression(self, fragment: Fragment) -> bool:
        """Whether GROUP BY ALL includes the expression: it names a column and calls no aggregate."""
        names = any(is_name(token) and token.text.lower() not in known.AGGREGATES for token in fragment.tokens)
        return names and not _called(fragment) & known.AGGREGATES

    def _resolved(self, piece: Fragment, before: Mapping[tuple[str, ...], Fragment]) -> Fragment:
        """Return the expression that an item of GROUP BY refers to."""
        token = piece.tokens[0]
        if len(piece) > 1 or not (is_name(token) or token.token_type == TokenType.NUMBER):
            return piece
        if token.token_type == TokenType.NUMBER:
            at = int(token.text) if token.text.isdigit() else 0
            if not 1 <= at <= len(self.items):
                raise piece.refused(
                    "definition.ordinal", f"GROUP BY {token.text}: there are {len(self.items)} columns", "count from 1"
                )
            return self.items[at - 1].expression
        name = token.text.lower()
        item = next((i for i in self.items if i.name.lower() == name), None)
        own = () if item is None else self._normal(item.expression)
        is_selected = any(self._normal(i.expression) == (name,) for i in self.items)
        if item is None or (is_selected and (name in self.columns or name in own)):
            return piece
        if name in self.columns or (name in own and not _is_chain(item.expression)):
            message = f"GROUP BY {token.text} means the column in Spark, not the expression of that name"
            hint = f"add `{token.text} AS {self._free(name)}` to SELECT"
            if own not in before:
                hint += f", and let `{item.expression.text}` stand in GROUP BY"
            hint += "; or give the expression a name that is no column"
            self.problems.append(piece.problem("definition.ambiguous-group", message, hint))
        return item.expression

    def _free(self, name: str) -> str:
        """Return a name for a column beside the output that has its own."""
        taken = {item.name.lower() for item in self.items} | self.columns
        return next(free for at in count(1) if (free := f"{name}_{at}") not in taken)

    def _bucket(self, grouped: list[Fragment], group: Fragment) -> Bucket:
        forms = [(g, form) for fragment in grouped if (form := bucket_form(g := self._bare(fragment)))]
        found = [(g, form) for g, form in forms if form != "date_trunc"]
        if not found:
            found = forms
        elif len(forms) > len(found):
            read = read_bucket(found[0][0], self.qualifiers)
            found += [(g, f) for g, f in forms if f == "date_trunc" and self._normal(g)[-2] == read.time_column.lower()]
        distinct = {self._normal(g): g for g, _ in found}
        if not distinct and self.failed:
            raise self.failed
        if not distinct:
            place, hint = next(((g, hint) for g in grouped if (hint := foreign.bucket(g))), (group, ""))
            hint = hint or "add window(time, '1 hour'), time_bucket or date_trunc"
            raise place.refused("definition.no-bucket", "GROUP BY divides no time", hint)
        if len(distinct) > 1:
            second = list(distinct.values())[1]
            raise second.refused(
                "definition.two-buckets", f"`{second.text}` is a second bucket", "define one aggregate for each"
            )
        return replace(read_bucket(next(iter(distinct.values())), self.qualifiers))

    def _bare(self, fragment: Fragment) -> Fragment:
        """Return the window call itself where GROUP BY holds a field of it, such as its end, or its last instant."""
        fragment = timed_window(fragment)
        is_field = (
            len(fragment) > 3 and words(fragment.tokens[-2:-1]) == "." and bucket_form(fragment.part(0, -2)) == "window"
        )
        return fragment.part(0, -2) if is_field else fragment
