"""Repair of an aggregate whose journal and tables do not agree: found, said, then mended."""
