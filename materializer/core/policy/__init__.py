"""Rules that the clock drives: now in, windows and boundaries out."""
