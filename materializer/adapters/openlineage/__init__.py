"""OpenLineage events of activities, sent by the official client."""
