"""Frozen values that everything else speaks in. Standard library only."""
