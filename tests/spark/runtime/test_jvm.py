from __future__ import annotations

import subprocess
import sys

from tests.paths import ROOT


def test_a_process_starts_again_what_was_killed() -> None:
    """
    A query whose JVM is killed ends with one clear error and no word of the bridge; the next start gives a new session, and
    frames of the old one still say what became of it.
    """
    script = (
        "import os, signal, threading\n"
        "from materializer.config import Config\n"
        "from materializer.errors import SparkDiedError\n"
        "from materializer.spark.runtime import session\n"
        "from materializer.spark.runtime.failures import spoken\n"
        "def told(work):\n"
        "    try:\n"
        "        with spoken('asking'):\n"
        "            work()\n"
        "    except SparkDiedError as e:\n"
        "        print(e.message)\n"
        "spark = session.start(Config())\n"
        "pid = session.jvm_pid(spark)\n"
        "old = spark.range(10**13).groupBy().sum('id')\n"
        "threading.Timer(1, os.kill, (pid, signal.SIGKILL)).start()\n"
        "told(old.toArrow)\n"
        "told(spark.newSession)\n"
        "spark = session.start(Config())\n"
        "print(spark.range(3).count(), session.jvm_pid(spark) != pid)\n"
        "told(old.collect)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    died = "asking failed: Spark died: its process was ended by signal 9 (SIGKILL)"
    assert (0, "") == (ran.returncode, ran.stderr)
    assert [died, died, "3 True", died] == ran.stdout.splitlines()
