"""From SQL or Python to a definition: all problems at once, each with its place."""
