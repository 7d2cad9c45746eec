"""Tables of an aggregate in many small files, as many small refreshes leave them."""

from __future__ import annotations

from deltalake import DeltaTable

from materializer.core.policy.compaction import Group
from materializer.lake.write.rewrite import pieces_of, rewrite
from materializer.services.aggregate import Aggregate
from tests.system.builders import Site


def torn(site: Site, name: str = "hourly") -> None:
    """Write both tables again with a file for each bucket, as many small refreshes leave them."""
    aggregate = Aggregate.of(site.lake.journal.view().named(name), site.lake.root)
    for table in ("partials", "output"):
        path, column = aggregate.paths[table], aggregate.slice_column(table).name
        _, pieces, _ = pieces_of(path, column, aggregate.definition.time_type)
        note = {"plan": "", "n": 0, "kind": "maintain", "source_version": None}
        rewrite(path, Group(tuple(pieces), "small"), column, aggregate.definition.time_type, [column], 1, note)


def files_of(site: Site, table: str = "output", name: str = "hourly") -> int:
    """Return how many files the newest version of a table of an aggregate has."""
    aggregate = Aggregate.of(site.lake.journal.view().named(name), site.lake.root)
    return len(DeltaTable(aggregate.paths[table]).file_uris())
