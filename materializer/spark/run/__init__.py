"""Spark as the services see it: one class, and what it asks for each purpose."""
