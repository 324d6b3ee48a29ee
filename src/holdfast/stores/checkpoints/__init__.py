"""Checkpoints in one bare git repository that all projects of a home share."""
