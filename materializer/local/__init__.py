"""The local executor: few rows are computed in this process, by DuckDB, with the same results as in Spark."""
