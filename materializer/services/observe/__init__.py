"""What the source and our tables hold: read, never written."""
