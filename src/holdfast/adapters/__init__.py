"""Holdfast behind the interfaces of other libraries. No adapter is loaded unless it is imported."""
