"""The version that `dbt --version` and `dbt debug` show."""

from importlib.metadata import version as installed

version = installed("materializer")
