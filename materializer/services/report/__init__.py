"""Reports about aggregates: no JVM, no writes."""
