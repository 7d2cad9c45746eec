"""Tables as plain Spark reads them, without the snapshot of a Delta version that Spark makes anew for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from deltalake import DeltaTable
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plain_sql(spark: SparkSession, path: str | Path) -> str:
    """Return what stands for the newest version of a table in Spark SQL: its Parquet files, where they say all there is to know.

    Spark's snapshot of a new Delta version costs several times what reading a few rows does. Where files are not all (marked or
    mapped rows, partitions) it is the table.
    """
    opened = DeltaTable(str(path))
    protocol, metadata = opened.protocol(), opened.metadata()
    is_more = {"deletionVectors", "columnMapping"} & set(protocol.reader_features or ())
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    if is_more or mode != "none" or metadata.partition_columns or not opened.file_uris():
        return f"delta.`{path}`"
    schema = StructType.fromJson(json.loads(opened.schema().to_json()))
    frame = spark.read.schema(schema).parquet(*opened.file_uris())
    name = f"plain_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    return name
