"""Refresh policies: which are due, and running them."""
