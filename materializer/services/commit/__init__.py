"""What the protocol touches, for real: writes only under a lease."""
