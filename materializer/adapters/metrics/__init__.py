"""Metrics of activities, for Prometheus by a textfile and for OpenTelemetry by OTLP, each by its official library."""
