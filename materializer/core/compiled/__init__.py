"""A definition that met the columns of its source."""
