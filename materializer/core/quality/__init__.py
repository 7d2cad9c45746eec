"""Suites of expectations, what they compile to, and verdicts; no Spark, no Great Expectations."""
