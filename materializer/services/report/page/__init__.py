"""What the report page shows, as values of JSON: made from the journal, logs and outputs; nothing is written and no JVM is started."""
