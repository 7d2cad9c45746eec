"""What a process may use of a machine, by control groups that are written out."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from materializer.machine import cores, memory, uncollected
from tests.paths import ROOT

HERE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
CORES = len(os.sched_getaffinity(0))


def written(root: Path, files: Mapping[str, str], own: str) -> tuple[Path, Path]:
    """Write files of control groups, and the one that names those of the process."""
    for name, text in files.items():
        file = root / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "own").write_text(own)
    return root / "groups", root / "own"


@pytest.mark.parametrize(
    ("files", "own", "core", "size"),
    [
        pytest.param({}, "", CORES, HERE, id="none"),
        pytest.param({"cpu.max": "100000 100000\n", "memory.max": "1048576\n"}, "0::/\n", 1, 1 << 20, id="of a container"),
        pytest.param({"cpu.max": "max 100000\n", "memory.max": "max\n"}, "0::/\n", CORES, HERE, id="without limits"),
        pytest.param(
            {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n", "a/b/memory.high": "2097152\n"},
            "0::/a/b\n", 1, 2 << 20, id="around it",
        ),
        pytest.param(
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "", "cpu/x/cpu.cfs_quota_us": "90000\n", "cpu/x/cpu.cfs_period_us": "100000\n",
             "memory/x/memory.limit_in_bytes": "3145728\n"},
            "4:memory:/x\n3:cpu,cpuacct:/x\n", 1, 3 << 20, id="of version 1",
        ),
        pytest.param(
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"},
            "", CORES, HERE, id="of version 1 without limits",
        ),
        pytest.param({"cpu.max": "nonsense", "memory.max": "0"}, "0::/\n", CORES, HERE, id="that cannot be read"),
    ],
)  # fmt: skip
def test_a_control_group_limits_what_is_used(
    tmp_path: Path, files: Mapping[str, str], own: str, core: int, size: int
) -> None:
    """
    The least of what the machine has and what each group grants, in either version; one without a limit or that cannot be read grants all.
    """
    places = written(tmp_path, files, own)

    assert (core, size) == (cores(*places), memory(*places))


ARENAS = """
import ctypes, sys, threading
from materializer.machine import share_arenas
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.fopen.restype = ctypes.c_void_p, ctypes.c_void_p
if sys.argv[2] == "shared":
    share_arenas()
together = threading.Barrier(8)
def allocate():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
file = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, ctypes.c_void_p(file))
libc.fclose(ctypes.c_void_p(file))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_threads_share_two_arenas(tmp_path: Path) -> None:
    """
    Else each of eight threads has its own, and what is free in one is of no use in another.
    """
    found = {}
    for how in ("shared", "apart"):
        said = tmp_path / how
        subprocess.run([sys.executable, "-c", ARENAS, str(said), how], check=True, cwd=ROOT)
        found[how] = said.read_text().count("<heap nr=")

    assert found["shared"] <= 2 < found["apart"]


FREED = """
import resource
from pathlib import Path
from materializer.machine import give_back
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
kept = [bytes(60_000) for _ in range(2_000)]
last = bytes(60_000)
before = resident()
del kept
give_back()
print(before - resident() > 60_000 * 1_500)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_free_memory_is_given_back() -> None:
    """
    Also what lies below something that is in use.
    """
    done = subprocess.run([sys.executable, "-c", FREED], check=True, cwd=ROOT, capture_output=True, text=True)

    assert "True" == done.stdout.strip()


def test_values_that_stay_are_not_searched() -> None:
    """
    Neither in the block nor when it ends; afterwards the search goes on as before.
    """
    begun: list[str] = []
    gc.callbacks.append(lambda phase, _: begun.append(phase))
    try:
        with uncollected():
            made = [[n] for n in range(300_000)]
        more = [[n] for n in range(50)]
        assert [] == begun
        gc.collect()
        assert ["start", "stop"] == begun
    finally:
        gc.callbacks.pop()
        gc.unfreeze()
    assert gc.isenabled()
    assert len(made) + len(more) == 300_050
