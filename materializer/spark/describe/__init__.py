"""Spark's analysis of a definition, before anything is computed."""
