"""Repair of aggregates whose journal and tables do not agree: diagnosed, shown, then repaired."""
