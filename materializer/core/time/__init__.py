"""Instants are integers, spans are half-open, buckets are derived."""
