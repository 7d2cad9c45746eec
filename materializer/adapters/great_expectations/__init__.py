"""Great Expectations, for expectations that are not compiled, and for Data Docs."""
