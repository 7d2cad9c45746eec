"""A definition cannot be accepted, or would change what it may not: exit status 65."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import force_setattr

from materializer.errors.base import UnwrittenError, masked

_SHOWN: Final = 3
"""How many of the definitions that were not checked are named."""


class Problem(Struct, frozen=True):
    """One problem of a definition, and its place.

    Args:
        code: Stable code, such as ``definition.unknown-column``.
        message: What was found and what was expected.
        hint: What to write instead.
        file: The file of the definition, or ``""`` for the Python form.
        line: 1-based line, 0 without a place in a text.
        column: 1-based column, 0 without a place in a text.
        about: The name or text of the definition that the problem is about, "" for the whole definition. A problem without a
            place gets the place of this text.
    """

    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    about: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "message", masked(self.message))
        force_setattr(self, "hint", masked(self.hint))

    def __str__(self) -> str:
        place = (
            f"{self.file or '<definition>'}:{self.line}:{self.column}: "
            if self.line
            else (f"{self.file}: " if self.file else "")
        )
        return f"{place}{self.code}: {self.message}" + (f" (hint: {self.hint})" if self.hint else "")


class DefinitionError(UnwrittenError):
    """One or several definitions cannot be accepted; carries every problem found.

    Args:
        problems: What is wrong.
        left: Names of definitions that were not checked to the end, because only Spark can, which was not started for them.
    """

    code = "definition.invalid"
    exit_status = 65
    subject: ClassVar[str] = "definitions"
    again: ClassVar[str] = "apply again"

    def __init__(self, problems: Iterable[Problem], left: Sequence[str] = ()) -> None:
        self.problems: Sequence[Problem] = tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column, p.code)))
        count = len(self.problems)
        message = "\n".join(str(p) for p in self.problems)
        self.left = tuple(left)
        hint = f"mend {'the problem' if count == 1 else f'these {count} problems'} and {self.again}"
        super().__init__(message, hint=hint + (f"; Spark then checks {_listed(self.left)}" if left else ""))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form, with one object per problem."""
        fields = ("code", "message", "hint", "file", "line", "column")
        return super().as_json() | {"problems": [{f: getattr(p, f) for f in fields} for p in self.problems]}


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown


class TestFileError(DefinitionError):
    """Tests of definitions cannot be run as they are written; carries every problem found."""

    code = "test.invalid-file"
    subject = "tests"
    again = "run the tests again"
    __test__ = False


class NotCoveredError(UnwrittenError):
    """The next version of an aggregate lacks something that the current version offers its readers; nothing was switched."""

    code = "version.not-covered"
    exit_status = 65


class RollupChangedError(UnwrittenError):
    """The aggregate that is rolled up no longer has the partials that the roll-up merges; nothing was written."""

    code = "rollup.changed"
    exit_status = 65


class FrozenHistoryError(UnwrittenError):
    """The request would compute frozen history again, from the rows that the source still has."""

    code = "history.frozen"
    exit_status = 65
