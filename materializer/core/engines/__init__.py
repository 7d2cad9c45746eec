"""The windowing engines: what their parameters mean, and which results a change of the source can touch."""
