"""The stores that tests run against, by name; each is a real server that ``make servers`` installs."""

from __future__ import annotations

from typing import Final

from tests.servers import azure, gcs, s3

STORES: Final = {"s3": s3, "azure": azure, "gcs": gcs}
