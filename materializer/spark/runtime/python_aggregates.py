"""Aggregates written in Python: registered in a session as grouped pandas functions, and refused where none is."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Container
from pathlib import Path
from sysconfig import get_path
from types import ModuleType
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

from materializer.core.aggregates.python import PythonAggregate
from materializer.core.aggregates.registry import find
from materializer.core.compiled.definition import Definition
from materializer.errors import UsageError
from materializer.spark.runtime.session import computes_here


def register(spark: SparkSession, aggregate: PythonAggregate) -> None:
    """Make *aggregate* callable in SQL expressions of *spark*'s session; no other session sees it."""
    if not computes_here(spark):
        _send_with(aggregate.function)
    with warnings.catch_warnings():
        # the kind of function is given by name, because a user's function has no type hints that Spark could read
        warnings.simplefilter("ignore", UserWarning)
        function = pandas_udf(aggregate.function, aggregate.returns, PandasUDFType.GROUPED_AGG)
    spark.udf.register(aggregate.name, function)


def _send_with(function: Callable[..., Any]) -> None:
    """Let Spark send the module of a function with it, and the modules beside that: Python elsewhere cannot import them.

    What is installed is not sent: where the function runs, it has to be installed, too.
    """
    file = _file_of(sys.modules.get(function.__module__))
    if file is None:
        return
    folder = file.parents[function.__module__.count(".") + (file.name == "__init__.py")]
    installed = [get_path(name) for name in ("stdlib", "purelib", "platlib")]
    for name, module in list(sys.modules.items()):
        at = _file_of(module)
        is_ours = name == "__main__" or name.partition(".")[0] == "materializer"
        if at and not is_ours and at.is_relative_to(folder) and not any(map(at.is_relative_to, installed)):
            register_pickle_by_value(module)


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None


def refuse_unknown(definition: Definition, known: Container[str]) -> None:
    """Refuse a definition that uses an aggregate in Python which this process does not know.

    Raises:
        UsageError: Naming them.
    """
    used = {call.function for m in definition.spec.measures for call in m.formula.calls if find(call.function) is None}
    if missing := sorted(name for name in used if name not in known):
        raise UsageError(
            f"'{definition.spec.name}' uses the Python aggregate {', '.join(missing)}, which this process does not know",
            hint="name it in python_aggregates of materializer.toml, or pass it to Materializer(python_aggregates=…)",
        )
