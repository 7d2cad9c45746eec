"""From a definition to an aggregate in the lake, and what a change of it means."""
