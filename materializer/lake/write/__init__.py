"""The only code that commits to tables: every commit is by compare-and-swap and names its plan."""
