"""The queries of a refresh, and the comparing and writing of their results."""
