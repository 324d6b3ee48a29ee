"""How everything leaves a home and comes back."""
