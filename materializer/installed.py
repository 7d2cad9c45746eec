"""The version of this package."""

__version__ = "0.1.0"
"""The version of the distribution, which the build reads here."""
