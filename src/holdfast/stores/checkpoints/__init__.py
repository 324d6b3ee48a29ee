"""Checkpoints in one bare git repository, shared by all projects."""
