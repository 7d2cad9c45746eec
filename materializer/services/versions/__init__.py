"""Versions of an aggregate's data: built beside the published version, and switched."""
