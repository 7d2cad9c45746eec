"""What applying a definition does, as values: the kind of change, what it reads, and what it copies."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from materializer.core.printed import Printed
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import RetryableError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.definitions.sources import MissingFeed
from materializer.services.definitions.waiting import WaitingCheck


class DefinitionChange(Printed, Struct, frozen=True):
    """What applying one definition does, or would do.

    Args:
        name: The aggregate.
        kind: ``new``, ``unchanged``, ``metadata`` (nothing is computed again), ``measures`` (computed from what is
            stored) or ``data`` (computed from the source).
        differences: Lines for people, ``-`` was, ``+`` will be.
        source: Where its source lies.
        source_version: Version from which changes count.
        next: What becomes of the next version: ``started``, ``replaced`` (another one was being built), ``building``
            (it is the one that is being built), ``switched`` (nothing was published yet, so that it is at once),
            ``abandoned`` (what is published was applied again), or "".
        reads: What building it reads of the source, about; None when it is not built.
        kept: The stored partials that are copied; None when none are, or when they cannot be read.
        feed: How the source gets a change feed, if data are computed from it and it has none.
        waiting_checks: Expectations of the next version that do not hold for what is published; all others hold at once.
        sample: Which rows of its source are read, for people; "" for all.
    """

    name: str
    kind: str
    differences: tuple[str, ...] = ()
    source: str = ""
    source_version: int = 0
    next: str = ""
    reads: Reads | None = None
    kept: ReusedPartials | None = None
    feed: MissingFeed | None = None
    waiting_checks: tuple[WaitingCheck, ...] = ()
    sample: str = ""


class Reads(Struct, frozen=True):
    """What building a version costs.

    Args:
        rows: Source rows, about.
        bytes: Bytes of their files.
        files: How many.
        runs: Runs that this takes, about.
    """

    rows: int
    bytes: int
    files: int
    runs: int


class ReusedPartials(Struct, frozen=True):
    """What making a version from stored partials copies; its output is written anew from that.

    Args:
        rows: Rows of the partials.
        bytes: Bytes of their files.
        files: How many.
    """

    rows: int
    bytes: int
    files: int


class CheckedDefinition(Struct, frozen=True):
    """A definition that was checked.

    Args:
        change: What applying it does.
        spec: It, resolved.
        source: The table it reads.
        schemas: Column names and Spark types of ``partials`` and ``output``.
        existing: The aggregate that has its name, if there is one.
        build: The next version that is being built beside that.
        reads: Name of the aggregate of this lake that it reads, "" if it reads another table.
    """

    change: DefinitionChange
    spec: AggregateSpec
    source: SourceIdentity
    schemas: dict[str, Any]
    existing: AggregateState | None
    build: AggregateState | None = None
    reads: str = ""

    def refuse_orphan(self, view: View) -> None:
        """Raise RetryableError when the aggregate that it reads was dropped since it was checked."""
        if self.reads and view.find(self.reads) is None:
            msg = f"'{self.reads}', which '{self.spec.name}' reads, was dropped a moment ago"
            raise RetryableError(msg, hint="look with 'materializer status' what there is to read")
