"""The queries of the windowing engines: raw rows in, result rows out."""
