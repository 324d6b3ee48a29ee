"""Hermes's own session store, `state.db`, read and bounded in its own format."""
