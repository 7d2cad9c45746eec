"""The running task as the parent of what its command does, for OpenLineage."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import Final

from airflow.sdk import get_current_context

PARENT: Final = "OPENLINEAGE_PARENT_ID"
"""The variable that names the parent run; tools of OpenLineage share it."""
ROOT: Final = "OPENLINEAGE_ROOT_PARENT_ID"
"""The variable that names the run at the root, the one of the DAG."""
_LOG: Final = logging.getLogger(__name__)


def variables() -> dict[str, str]:
    """Return the variables that name the task of this process as the parent run.

    None without Airflow's provider of OpenLineage, if that is disabled, or if a parent is named already: events would then point
    to a run that no event is about. What goes wrong in the provider never stops a task.
    """
    if PARENT in os.environ or find_spec("airflow.providers.openlineage") is None:
        return {}
    try:
        from airflow.providers.openlineage import conf  # noqa: PLC0415 (an optional package)
        from airflow.providers.openlineage.plugins import macros  # noqa: PLC0415 (an optional package)

        if conf.is_disabled():
            return {}
        task = get_current_context()["ti"]
        return {PARENT: macros.lineage_parent_id(task), ROOT: macros.lineage_root_parent_id(task)}
    except Exception as exc:  # noqa: BLE001 - lineage is no reason to fail
        _LOG.warning("The run of this task is not named to OpenLineage: %s", exc)
        return {}
