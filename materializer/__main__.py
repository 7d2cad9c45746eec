"""``python -m materializer`` is the command ``materializer``."""

from __future__ import annotations

import sys

from materializer.adapters.cli import main

if __name__ == "__main__":
    sys.exit(main())
