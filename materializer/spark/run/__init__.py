"""Spark as the services use it: one class, and one module for each purpose."""
