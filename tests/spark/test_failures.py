from __future__ import annotations

import pytest

from materializer.errors import SparkError
from materializer.spark.failures import spoken


def cancelled() -> None:
    """Fail as pyspark does when Ctrl-C stops it: it asks once more for the result of a job that was cancelled."""
    try:
        raise KeyboardInterrupt
    finally:
        raise OSError("SPARK_JOB_CANCELLED")


def test_ctrl_c_stays_ctrl_c() -> None:
    """
    What pyspark raises on the way is not what happened.
    """
    with pytest.raises(KeyboardInterrupt), spoken("computing"):
        cancelled()


def test_an_old_ctrl_c_is_no_new_one() -> None:
    """
    Who goes on after Ctrl-C is told of failures as everybody else.
    """
    try:
        cancelled()
    except OSError:
        with pytest.raises(SparkError, match="disk"), spoken("computing"):
            raise OSError("the disk") from None
        with pytest.raises(KeyboardInterrupt), spoken("computing"):
            cancelled()
