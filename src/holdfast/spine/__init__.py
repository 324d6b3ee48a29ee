"""How everything is removed from a home and restored."""
