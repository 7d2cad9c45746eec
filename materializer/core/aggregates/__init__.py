"""Aggregates: the partials of each, how they are built, merged and finalised, and the plain form that defines its value."""
