"""What a Delta table asks of its readers: the features of its protocol, columns that need more than their type, and old files."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable
from msgspec import Struct

if TYPE_CHECKING:
    import pyarrow.parquet as pq

JULIAN: Final = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
"""What a writer says of old dates in the Julian calendar, by which statistics are not."""
CATALOG_FEATURES: Final = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview"})
HARMLESS: Final = frozenset(
    {
        "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns",
        "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "inCommitTimestamp", "domainMetadata", "clustering",
        "rowTracking", "allowColumnDefaults", "checkpointProtection", "icebergCompatV1", "icebergCompatV2",
    }
)  # fmt: skip
"""Features that do not change how rows have to be read."""
_PADDED: Final = "__CHAR_VARCHAR_TYPE_STRING"


class TableFeatures(Struct, frozen=True):
    """The features that determine who may read and write a table.

    Args:
        has_deletion_vectors: Whether its protocol allows rows to be marked as deleted.
        has_column_mapping: Whether its columns may have other names in the files.
        is_clustered: Whether it has liquid clustering.
        has_row_tracking: Whether its protocol tracks rows.
        is_catalog_managed: Whether only its catalog knows its newest version.
        partition_columns: Partition columns, in order.
        names: All features that the protocol names.
    """

    has_deletion_vectors: bool
    has_column_mapping: bool
    is_clustered: bool
    has_row_tracking: bool
    is_catalog_managed: bool
    partition_columns: tuple[str, ...]
    names: frozenset[str]

    @property
    def obstacle(self) -> str | None:
        """Why the library must not read rows of the table, because it would read them wrongly; None if it may."""
        if self.has_deletion_vectors:
            return "the table has deletion vectors"
        if self.has_column_mapping or "columnMapping" in self.names:
            return "the table has mapped columns"
        if CATALOG_FEATURES & self.names:
            return "the table is managed by a catalog"
        if unknown := sorted(self.names - HARMLESS):
            return f"the table uses {', '.join(unknown)}"
        return None


def features_of(table: DeltaTable) -> TableFeatures:
    """Return the features of a table, from its protocol and properties."""
    protocol, metadata = table.protocol(), table.metadata()
    names = frozenset(protocol.reader_features or ()) | frozenset(protocol.writer_features or ())
    mapping = metadata.configuration.get("delta.columnMapping.mode") or "none"
    return TableFeatures(
        has_deletion_vectors="deletionVectors" in names,
        has_column_mapping="columnMapping" in names or mapping != "none",
        is_clustered="clustering" in names,
        has_row_tracking="rowTracking" in names,
        is_catalog_managed=bool(CATALOG_FEATURES & names),
        partition_columns=tuple(metadata.partition_columns),
        names=names,
    )


def is_typed_by_others(table: DeltaTable, columns: Collection[str]) -> bool:
    """Return whether a column needs more than its Arrow type to be read: padded strings, times that are folder names."""
    folders = set(table.metadata().partition_columns) & set(columns)
    for each in json.loads(table.schema().to_json())["fields"]:
        if each["name"] in folders and each["type"] in {"date", "timestamp", "timestamp_ntz"}:
            return True
        if each["name"] in columns and _PADDED in each.get("metadata", {}):
            return True
    return False


def has_old_times(footer: pq.FileMetaData) -> bool:
    """Return whether Spark wrote a file's days before 1582 in the Julian calendar, which the library never uses."""
    metadata = footer.metadata or {}
    if metadata.keys() & JULIAN:
        return True
    version = metadata.get(b"org.apache.spark.version", b"3").decode(errors="replace")
    return version.split(".")[0] in {"1", "2"}
