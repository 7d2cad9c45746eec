"""The real ports of the protocol, which write only under a lease."""
