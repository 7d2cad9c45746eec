"""Naive oracles of the windowing engines: plain double loops over all rows, written from the design page alone.

Everything is counted in integer *ticks* of the time type, so a window that holds its end, ``(s, e]``, is ``[s + 1, e + 1)``.
Nothing here imports the package under test.
"""
