"""The queries of a refresh, and how their results are compared and written."""
