"""Removing everything from a home, and restoring it."""
