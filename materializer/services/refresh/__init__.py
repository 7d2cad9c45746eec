"""Refreshing: one request, done in runs; and what a refresh would do, or reads fresh."""
