"""Pictures of the report page for the documentation: a small lake, looked at in Chromium, wide and narrow, light and dark.

    python -m tests.adapters.page.screenshots [--only lake]

The lake is made of trades of the last twenty days with late, corrected and refused rows; the pictures lie in
``docs/report/``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.adapters import page_lakes

FOLDER = Path(__file__).parents[3] / "docs" / "report"
VIEWS = {"lake": "#/", "aggregate": "#/a/hourly?measure=mean", "lineage": "#/lineage"}
SIZES = {1440: 1000, 768: 1000, 390: 844}


def main() -> None:
    """Make the lake, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=VIEWS)
    only = parser.parse_args().only
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    FOLDER.mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with tempfile.TemporaryDirectory(prefix="lake-") as folder, sync_playwright() as playwright:
        made = page_lakes.lake(Path(folder), name="MSFT", start=today - timedelta(days=page_lakes.DAYS - 1))
        url = made.report(Path(folder) / "site").as_uri()
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, view in VIEWS.items():
            for width, height in SIZES.items():
                for scheme in ("light", "dark"):
                    if only in {None, name}:
                        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                        page.goto(url + view)
                        page.wait_for_timeout(1500)
                        page.screenshot(path=FOLDER / f"{name}-{width}-{scheme}.png", full_page=width == 1440)
                        page.close()
        browser.close()


if __name__ == "__main__":
    main()
