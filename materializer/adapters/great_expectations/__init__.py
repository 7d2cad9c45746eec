"""Great Expectations, for what is not compiled, and its Data Docs."""
