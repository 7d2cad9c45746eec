"""What people are told of an aggregate: no JVM, no writes."""
