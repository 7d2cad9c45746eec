"""The JVM: how it starts, its settings, and how it fails and dies."""
