"""The JVM: how it is started, what it is given, how it fails and dies."""
