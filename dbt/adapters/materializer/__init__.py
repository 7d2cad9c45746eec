"""Where dbt looks for the adapter of a profile with `type: materializer`; it is in `materializer.adapters.dbt`."""

from materializer.adapters.dbt.plugin import Plugin

__all__ = ["Plugin"]
