"""What a definition is, as a value: it knows no SQL and no clock."""
