"""Hermes's own session store, `state.db`, read and changed in its own format."""
