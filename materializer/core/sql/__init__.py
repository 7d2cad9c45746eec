"""The text and the tokens of Spark SQL: text in, tokens out, never a table."""
