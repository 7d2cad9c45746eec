"""The protocol of writing: pure, at most one outside write a step."""
