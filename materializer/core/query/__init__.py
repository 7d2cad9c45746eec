"""Queries as values, which each executor carries out in its own way."""
