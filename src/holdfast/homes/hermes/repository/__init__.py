"""Hermes's checkpoints: one bare git repository with a chain of commits for each project."""
