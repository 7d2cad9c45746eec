"""One module for each group of commands: parse, one call of the façade, show."""
