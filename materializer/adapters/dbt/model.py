"""One model of dbt as an aggregate: its definition, and what one `dbt run` does with it. Nothing here imports dbt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from materializer.api import Materializer
from materializer.core.spec.spec import NAME
from materializer.errors import UsageError

OnChange: TypeAlias = Literal["apply", "continue", "fail"]
ON_CHANGE: Final = ("apply", "continue", "fail")
"""What dbt's setting ``on_configuration_change`` may be."""
TABLE: Final = "output.table"
"""The property that gives the output its name in the catalog, where dbt looks for the model."""
_COMPUTED: Final = ("data", "measures")
"""Kinds of change for which rows are computed again."""


class Model(Struct, frozen=True):
    """A model of dbt.

    Args:
        name: Name of the aggregate.
        table: Name of its output in the catalog.
        sql: The compiled SELECT.
        comment: The description of the model.
        properties: Properties of the definition.
        on_change: What happens when the definition changes the data.
        is_full_refresh: Whether dbt was called with ``--full-refresh``.
    """

    name: str
    table: str
    sql: str
    comment: str = ""
    properties: Mapping[str, Any] | None = None
    on_change: str = "apply"
    is_full_refresh: bool = False

    @property
    def definition(self) -> str:
        """The definition as SQL.

        Raises:
            UsageError: If *on_change* is unknown, if a property says what dbt says, or if *name* is none of an aggregate.

        Examples:
            >>> print(Model("bars", "gold.bars", "SELECT 1;").definition)
            CREATE MATERIALIZED VIEW bars
            TBLPROPERTIES ('output.table' = 'gold.bars')
            AS SELECT 1
        """
        if self.on_change not in ON_CHANGE:
            hint = f"write one of {', '.join(ON_CHANGE)}"
            raise UsageError(f"there is no on_configuration_change '{self.on_change}'", hint=hint)
        if not NAME.match(self.name):
            hint = "give the model an alias of letters, digits and underscores, a letter first"
            raise UsageError(f"{self.name!r} can be the name of no aggregate; nothing was written", hint=hint)
        given = {str(name): _value(value) for name, value in (self.properties or {}).items()}
        if TABLE in {name.lower() for name in given}:
            hint = "leave it out: schema and alias of the model name the output"
            raise UsageError(f"'{self.name}' has the property '{TABLE}', which dbt gives", hint=hint)
        properties = ", ".join(f"{_quoted(n)} = {_quoted(v)}" for n, v in {TABLE: self.table, **given}.items())
        comment = f"COMMENT {_quoted(self.comment)}\n" if self.comment else ""
        select = self.sql.strip().rstrip(";").rstrip()
        return f"CREATE MATERIALIZED VIEW {self.name}\n{comment}TBLPROPERTIES ({properties})\nAS {select}"


class ModelResult(Struct, frozen=True):
    """What a run did with a model.

    Args:
        message: One line for the log of dbt.
        rows: Rows written to the output.
    """

    message: str
    rows: int


def run(lake: Materializer, model: Model) -> ModelResult:
    """Define or change the aggregate of a model, and refresh it.

    Args:
        lake: The lake.
        model: The model.

    Raises:
        UsageError: If the model is more than one definition, or the definition changes the data and *on_change* is ``fail``;
            nothing was written.
        MaterializerError: As apply, build, refresh and backfill.
    """
    text = model.definition
    done = []
    changed, *others = lake.apply(text, dry_run=True)
    if others or changed.name != model.name:
        named = ", ".join(f"'{other.name}'" for other in others or [changed])
        hint = "write one SELECT in a model, without a semicolon behind it"
        raise UsageError(f"the model '{model.name}' defines {named} too; nothing was written", hint=hint)
    keeps = changed.kind in _COMPUTED and model.on_change != "apply" and not model.is_full_refresh
    if keeps and model.on_change == "fail":
        lines = "; ".join(changed.differences)
        hint = "run with --full-refresh, or set on_configuration_change to 'apply'"
        raise UsageError(f"the definition of '{model.name}' changes its data ({lines})", hint=hint)
    if keeps:
        done.append("changed definition not applied")
    else:
        changed = lake.apply(text)[0]
        done += (
            [] if changed.kind == "unchanged" else ["defined" if changed.kind == "new" else f"changed ({changed.kind})"]
        )
    rows, is_built = 0, False
    if not keeps and changed.next in {"started", "replaced", "building"}:
        build = lake.build(model.name)
        rows += sum(r.report.rows_written for r in build.runs)
        is_built = build.switched is not None
        done.append("built and switched" if is_built else f"built, not switched: {build.why_not}")
    if model.is_full_refresh and not is_built:
        report = lake.backfill(model.name, force=True)
        done.append("backfilled anew")
    else:
        report = lake.refresh(model.name)
        done.append(report.outcome)
    rows += sum(r.report.rows_written for r in report.runs)
    read = sum(r.report.rows_read for r in report.runs)
    done += [f"{read:,} rows read", f"{rows:,} written", *report.warnings]
    return ModelResult(", ".join(done), rows)


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
