"""When journal and tables do not agree: found, said, then mended."""
