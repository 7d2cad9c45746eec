"""Names that are code somewhere."""

from __future__ import annotations

HOSTILE = (
    "x'; DROP TABLE hourly --",
    "../hourly",
    "`hourly`",
    "<script>alert(1)</script>",
    "$(touch owned)",
    "a\nb",
    "x" * 5000,
)
"""Names that are code somewhere: in SQL, in a path, in a shell, in HTML, in a line of a log."""
