"""What a range of source versions did to which buckets: never less than what changed."""
