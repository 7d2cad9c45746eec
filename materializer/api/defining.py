"""Definitions: read, applied and dropped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from materializer.api.opened import OpenedLake
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import Problem
from materializer.services.definitions.changes import DefinitionChange
from materializer.services.versions.apply import Applier
from materializer.spark.runtime.jvm import watched


@watched
class Defining(OpenedLake):
    """Reads, applies and drops definitions."""

    def read_definitions(
        self, what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec]
    ) -> tuple[list[AggregateSpec], list[Problem]]:
        """Return the definitions in SQL text, files, folders of ``*.sql`` files or specs, and warnings about them.

        Args:
            what: One of these, or several. A text of one line that does not begin with ``CREATE`` is a path.

        Raises:
            DefinitionError: With every problem of every text.
            UsageError: If a file is not there or cannot be read.
        """
        return self._texts.read(what)

    def apply(
        self,
        what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec],
        *,
        dry_run: bool = False,
        publish_anyway: str = "",
    ) -> list[DefinitionChange]:
        """Make definitions known to the lake: checked whole first, then written one by one.

        A definition whose data changed becomes the next version of its aggregate, which :meth:`build` fills and
        publishes; what is published is refreshed and read meanwhile.

        Args:
            what: SQL text, a file, a folder, specs, or several of these.
            dry_run: Only say what would change.
            publish_anyway: Why a next version that is made from stored partials, and does not meet its expectations, is
                made all the same; recorded.

        Raises:
            DefinitionError: With every problem of every definition; nothing was written.
            FrozenHistoryError: If data changed and history is frozen.
            TableNotFoundError: If a source is not there.
        """
        applier = Applier(self._texts, self._definitions, self._versions)
        return applier.apply(what, dry_run=dry_run, publish_anyway=publish_anyway)

    def define(self, name: str, source: str, **parts: Any) -> DefinitionChange:
        """Define an aggregate from Python, and apply the definition.

        Args:
            name: Name of the aggregate.
            source: A path, or a name.
            parts: Those of :func:`materializer.define`, or, with an ``engine``, of
                :func:`materializer.core.language.engine_define.define_engine`.

        Raises:
            DefinitionError: With every problem; nothing was written.
            FrozenHistoryError: As :meth:`apply`.
        """
        return self.apply(self._texts.defined(name, source, parts))[0]

    def drop(self, name: str, *, cascade: bool = False) -> list[str]:
        """Remove an aggregate with all its tables; its source is never touched.

        Args:
            name: The aggregate.
            cascade: Remove the aggregates that read it, too, those that nobody reads first.

        Returns:
            The names of what was removed, in this order.

        Raises:
            HasReadersError: If others read it, without *cascade*; nothing was written.
        """
        gone = self._versions.drop(name, cascade=cascade)
        self.journal.tidy()
        return gone
