"""The version that `dbt --version` and `dbt debug` show."""

from materializer.installed import __version__ as version

__all__ = ["version"]
