"""Runs commands of dbt and changes of a project in one process, so that Spark is started once; reads them as JSON, answers in JSON.

Started by the tests with the interpreter of the environment that has dbt, in the folder of a project.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dbt.cli.main import dbtRunner

from materializer.config import Config, SparkConfig
from materializer.spark.runtime import session

OPTIONS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": str(Path("spark-warehouse").absolute()),
}


def main() -> None:
    """Do the steps on the standard input, and write what each came to into ``answers.json``."""
    spark = session.start(Config(spark=SparkConfig(master="local[2]", options=OPTIONS)))
    answers: list[Any] = []
    for step in json.load(sys.stdin):
        match step:
            case {"dbt": arguments}:
                ran = dbtRunner().invoke(arguments)
                results = getattr(ran.result, "results", None) or []
                answers.append(
                    {
                        "success": ran.success,
                        "error": str(ran.exception or ""),
                        "models": {r.node.name: [str(r.status), r.message or ""] for r in results},
                    }
                )
            case {"sql": text}:
                rows = spark.sql(text).collect()
                answers.append([[str(v) for v in row] for row in rows])
            case {"file": name, "text": text}:
                Path(name).write_text(text, encoding="utf-8")
                answers.append(None)
    Path("answers.json").write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
