"""The names that an expression of the local executor may use."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.local.kinds import Kind, quoted
from materializer.local.typed import Typed


class Scope(Struct, frozen=True):
    """The names that an expression may use.

    Args:
        columns: Type of each column, by name.
        variables: Expressions by the names of lambda variables.
        are_rows: Whether aggregates may stand in the expression.
    """

    columns: Mapping[str, Kind]
    variables: Mapping[str, Typed] = field(default_factory=dict)
    are_rows: bool = False

    def find(self, name: str) -> Typed | None:
        """Return the variable or column of a name, in any case."""
        found = self.variables.get(name.lower())
        if found is not None:
            return found
        return next((Typed(quoted(n), k) for n, k in self.columns.items() if n.lower() == name.lower()), None)

    def of_text(self, sql: str) -> Scope:
        """Return a scope in which a text means the same, with the columns alone that may stand in it: equal for many steps of a query."""
        text = sql.lower()
        return replace(self, columns={n: k for n, k in self.columns.items() if n.lower() in text or "`" in n})
