"""Spark's own opinion of a definition, before anything is computed."""
