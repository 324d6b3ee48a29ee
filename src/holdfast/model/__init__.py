"""Frozen values that all other packages use. Standard library only."""
