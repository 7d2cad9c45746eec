"""Which buckets a range of source versions changed, and how: never less than what changed."""
