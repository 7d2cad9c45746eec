"""Walk the newcomer's path of docs/airflow.md and take its pictures: ``python -m tests.adapters.airflow.screenshots --out docs/airflow``.

The commands are the page's own, run in an empty home folder: a new environment, a lake, ``airflow standalone``. A real
Chromium clicks as a person would; it is driven by its DevTools protocol. Takes some ten minutes and the port 8080.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.adapters.airflow.chromium import WIDTH, Page, chromium, running, until
from tests.paths import ROOT

PAGE = ROOT / "docs" / "airflow.md"
URL = "http://localhost:8080"
HOURLY, DAILY = "departures_hourly", "departures_daily"
DIALOG = "[role=dialog][data-state=open]"


def main(argv: Sequence[str] | None = None) -> int:
    """Take all pictures, or fail where the page does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.adapters.airflow.screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--home", type=Path, default=Path("/tmp/you"), help="home of the newcomer, made and removed")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    args = parser.parse_args(argv)
    if args.browser is None:
        parser.error("no Chromium was found; install one (Debian: chromium) or name it with --browser")
    if args.home.exists():
        parser.error(f"{args.home} is there already; remove it or name another folder with --home")
    if answers(URL):
        parser.error(f"something answers at {URL} already; stop it")
    args.home.mkdir()
    args.out.mkdir(exist_ok=True)
    try:
        with ExitStack() as stack:
            walk(args.home, args.browser, args.out, stack)
    finally:
        shutil.rmtree(args.home)
    return 0


def walk(home: Path, program: str, out: Path, stack: ExitStack) -> None:
    """Do what the page says, from its first command to its last."""
    section = PAGE.read_text(encoding="utf-8").split("## From nothing to a refreshed lake")[1].split("\n## ")[0]
    install, lake, define, start, spoil, correct, proof = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    stack.enter_context(running(["bash", "-ec", f"{install}{lake}{define}{start}"], environment(home), ROOT))
    passwords = home / "demo/airflow/simple_auth_manager_passwords.json.generated"
    until("the API server", lambda: passwords.exists() and answers(f"{URL}/api/v2/version"))
    b = stack.enter_context(chromium(program, home / "chromium", URL, AirflowPage))
    b.go("/")
    b.type("input[name=username]", "admin")
    b.type("input[name=password]", json.loads(passwords.read_text())["admin"])
    b.click("button", "Sign in")
    until("both DAGs", lambda: b.goes("/dags", DAILY) and b.has("a", HOURLY))
    b.picture(out / "dags.png", height=570)

    b.go(f"/dags/{HOURLY}")
    b.click("[data-testid=markdown-button]")
    b.stretch(DIALOG, 640, 430)
    b.picture(out / "page.png", DIALOG)

    for name in (HOURLY, DAILY):
        b.go(f"/dags/{name}")
        b.turn_on("[data-testid=toggle-pause]")
    until("two refreshes", lambda: b.states(HOURLY) == ["success"] and b.states(DAILY) == ["success"])
    b.log(HOURLY)
    b.picture(out / "log.png", DIALOG, height=360)

    form(b, out / "form.png", is_dry=True)
    until("a dry run", lambda: b.states(HOURLY)[0] == "skipped")
    form(b, None, is_dry=False)
    until("a backfill", lambda: b.states(HOURLY)[0] == "success" and len(b.states(DAILY)) == 2)

    told(home, spoil)
    until("a run that the gate stops", lambda: b.states(HOURLY)[0] == "failed")
    b.log(HOURLY)
    b.picture(out / "gate.png", DIALOG, height=482)
    there = spoil.splitlines()[0] + "\n"
    assert "dirty" in told(home, f"{there}materializer status")

    told(home, there + correct)
    until("the corrected rows", lambda: b.states(HOURLY)[0] == "success" and b.states(DAILY) == ["success"] * 3)
    b.size(WIDTH, 560)
    b.go("/assets")
    b.click("a", HOURLY)
    b.picture(out / "assets.png")
    assert told(home, there + proof).count("equal") == 2


def form(b: AirflowPage, picture: Path | None, *, is_dry: bool) -> None:
    """Ask for a backfill of a week, as a person does."""
    b.go(f"/dags/{HOURLY}")
    b.click("[data-testid=trigger-dag-button]")
    b.type("div:has(> [name=element_mode]) input", "backfill")
    b.key("Enter", 13)
    for day in ("2013/01/10", "2013/01/17"):
        b.click("p", "Select date and time")
        b.type("input[placeholder='YYYY/MM/DD']", day)
        b.type("input[placeholder='HH:mm']", "00:00")
        b.key("Enter", 13)
        b.key("Escape", 27)
    b.turn_on("label:has([name=element_force])")
    if is_dry:
        b.turn_on("label:has([name=element_dry_run])")
    if picture is not None:
        b.picture(picture, "[data-scope=accordion][data-part=item]")
    b.click("[data-testid=trigger-dag-submit]")


class AirflowPage(Page):
    """A page of Airflow."""

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """The tasks of a DAG, newest first, as the page itself asks for them."""
        path = f"/api/v2/dags/{dag}/dagRuns/~/taskInstances?order_by=-id"
        found = self.value(f"fetch('{path}').then(r => r.json())")
        return sorted(found["task_instances"], key=lambda t: t["run_after"], reverse=True)

    def states(self, dag: str) -> list[str]:
        """Their states."""
        return [task["state"] for task in self.runs(dag)]

    def log(self, dag: str) -> None:
        """Open the newest log over the whole window."""
        run = self.runs(dag)[0]["dag_run_id"]
        self.go(f"/dags/{dag}/runs/{run}/tasks/refresh")
        self.click("button[aria-label='Press f for fullscreen']")
        time.sleep(2)


def environment(home: Path) -> Mapping[str, str]:
    """A newcomer's: nothing of ours but the caches of downloads."""
    ours = ("AIRFLOW", "MATERIALIZER", "PYTHON", "VIRTUAL_ENV")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    cache = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=False)
    path = f"{Path(sys.base_prefix) / 'bin'}:{kept['PATH']}"
    return kept | {"HOME": str(home), "PATH": path, "PIP_CACHE_DIR": cache.stdout.strip() or str(home / "pip")}


def told(home: Path, text: str) -> str:
    """Run lines of the page to their end and return what they printed."""
    command = ["bash", "-ec", text]
    return subprocess.run(
        command, env=environment(home), cwd=home, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
