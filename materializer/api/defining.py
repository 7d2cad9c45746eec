"""Definitions: read, applied and dropped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from materializer.api.opened import OpenedLake
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from materializer.config import Config
    from materializer.core.spec.spec import AggregateSpec
    from materializer.errors import Problem
    from materializer.services.definitions.changes import DefinitionChange
    from materializer.services.definitions.starting import NewDefinition
    from materializer.services.testing.run import TestOutcome
    from materializer.services.versions.proposal import DefinitionsPlan


@watched
class Defining(OpenedLake):
    """Reads, applies and drops definitions."""

    def read_definitions(
        self, what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec]
    ) -> tuple[list[AggregateSpec], list[Problem]]:
        """Return the definitions in SQL text, files, folders of ``*.sql`` files or specs, and warnings about them and
        about files in the folder of suites that belong to no aggregate, and to none that a file beside the given ones defines.

        Args:
            what: One or several of these. A text of one line that does not begin with ``CREATE`` is a path.

        Raises:
            DefinitionError: With every problem of every text.
            UsageError: If a file does not exist or cannot be read.
        """
        from materializer.services.definitions.suites import unused

        specs, warnings = self._texts.read(what)
        others = partial(self._texts.beside, what)
        return specs, [*warnings, *unused(self.config.expectations, self.journal, specs, others)]

    def apply(
        self,
        what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec],
        *,
        dry_run: bool = False,
        publish_anyway: str = "",
    ) -> list[DefinitionChange]:
        """Apply definitions to the lake: first all are checked, then they are written one by one.

        A definition that changes the data becomes the next version of its aggregate. :meth:`build` computes and publishes it;
        meanwhile the published version is refreshed and read.

        Args:
            what: SQL text, a file, a folder, specs, or several of these.
            dry_run: Only return what would change.
            publish_anyway: Reason to accept a next version from stored partials that does not meet its expectations; the
                journal records it.

        Raises:
            DefinitionError: With every problem of every definition; nothing was written.
            FrozenHistoryError: If data changed and history is frozen.
            TableNotFoundError: If a source does not exist.
        """
        from materializer.services.versions.apply import Applier

        applier = Applier(self._texts, self._definitions, self._versions)
        return applier.apply(what, dry_run=dry_run, publish_anyway=publish_anyway)

    def plan_definitions(
        self, what: str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec]
    ) -> DefinitionsPlan:
        """Return what :meth:`apply` would do with definitions, what it would take, and who reads what changes; writes nothing.

        Definitions that cannot be applied are in the result, with their problems, beside those that can.

        Args:
            what: SQL text, a file, a folder, specs, or several of these.

        Raises:
            UsageError: If a file does not exist or cannot be read.
        """
        from materializer.services.versions.proposal import Proposer

        return Proposer(self._texts, self._definitions, self._versions).propose(what)

    def new(
        self,
        source: str,
        *,
        name: str | None = None,
        time: str | None = None,
        bucket: str | None = None,
        keys: Sequence[str] | None = None,
        measures: Sequence[str] | None = None,
        policy: bool = True,
    ) -> NewDefinition:
        """Return a definition over a source that fits its data, with a suite and a policy; writes nothing, and starts no Spark.

        What is left out is proposed from the log of the source and a sample of its rows.

        Args:
            source: A path, or a name.
            name: Name of the aggregate.
            time: The column that divides time.
            bucket: Width of the buckets, such as ``1 hour``.
            keys: Columns that rows are grouped by.
            measures: Measures as SQL with their names, such as ``sum(size) AS size``.
            policy: Whether the definition has a refresh policy.

        Raises:
            NotADeltaTableError: If the source is no Delta table; of a folder of Parquet files the hint makes it one.
            UsageError: If it has no column that can divide time, or what is given does not fit it.
            DefinitionError: With every problem of what is given.
        """
        from materializer.services.definitions.starting import Wishes

        return self._starter.draft(source, Wishes(name, time, bucket, keys, measures, policy))

    def write_new(self, new: NewDefinition, folder: str | Path = "sql") -> list[str]:
        """Write the definition and the suite of :meth:`new` into files that do not exist yet, and return their places.

        Args:
            new: What :meth:`new` returned.
            folder: Folder of the definition; the suite goes into the folder of suites of the configuration.

        Raises:
            UsageError: If one of the files exists; nothing was written.
        """
        return self._starter.write(new, folder)

    def test(
        self,
        *which: str,
        definitions: Sequence[str] = (),
        executor: Literal["local", "auto", "spark"] = "local",
    ) -> list[TestOutcome]:
        """Run tests of definitions, which give rows of a source and expect rows of the output; reads and writes no row of the lake.

        Args:
            which: Files, folders of them, and names of aggregates or of tests; without any, all tests of the folder ``tests``.
            definitions: SQL files, or folders of them; without any, those of the folder ``sql``. Aggregates of the lake that they do not
                have are tested as they were applied.
            executor: ``local`` for this process alone, ``auto`` for Spark where this process cannot compute, ``spark`` for Spark alone.

        Returns:
            The result of each test, in the order of the files; a test that fails raises no error.

        Raises:
            TestFileError: With every problem of the files; no test was run.
            DefinitionError: With every problem of the definitions.
            UsageError: If there is no such file, or no such test.
        """
        from materializer.services.testing.run import DefinitionTester

        session = self._executor.session

        def scratch(root: str, config: Config) -> Any:
            opened: Any = type(self)
            return opened(root, spark=session, config=config, python_aggregates=self._executor.python.values())

        lake = self._lake
        tester = DefinitionTester(lake.root, self.journal, lake.config, self._texts, scratch)
        return tester.run(which, definitions, executor=executor)

    def define(self, name: str, source: str, **parts: Any) -> DefinitionChange:
        """Define an aggregate from Python, and apply the definition.

        Args:
            name: Name of the aggregate.
            source: A path, or a name.
            parts: Arguments of :func:`materializer.define`, or, with an ``engine``, of
                :func:`materializer.core.language.engine_define.define_engine`.

        Raises:
            DefinitionError: With every problem; nothing was written.
            FrozenHistoryError: As :meth:`apply`.
        """
        return self.apply(self._texts.defined(name, source, parts))[0]

    def drop(self, name: str, *, cascade: bool = False) -> list[str]:
        """Remove an aggregate and all its tables; its source is never changed.

        Args:
            name: The aggregate.
            cascade: Remove the aggregates that read it, too, before it.

        Returns:
            The names of the removed aggregates, in order.

        Raises:
            HasReadersError: If others read it, without *cascade*; nothing was written.
            LeaseLostError: If another process took over meanwhile; nothing is removed then.
            StorageError: If its files cannot be removed; it is dropped, and the same call removes what is left.
        """
        from materializer.services.versions.drop import drop

        return drop(self._versions, name, cascade=cascade)
