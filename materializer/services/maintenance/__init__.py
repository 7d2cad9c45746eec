"""Files, logs and boundaries of tables: changes files, never rows."""
