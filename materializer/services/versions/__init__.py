"""Versions of an aggregate's data: built beside what is published, and switched."""
