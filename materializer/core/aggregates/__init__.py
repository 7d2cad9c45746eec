"""Aggregates: declared partials, how they are built, merged and finalised, and the plain form they stand for."""
