"""Whether what was computed or published is right: says so, never mends."""
