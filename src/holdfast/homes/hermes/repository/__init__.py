"""The checkpoints of Hermes: one bare git repository, a chain of commits for each project."""
