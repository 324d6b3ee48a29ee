"""Usage of a running session, read from the files that its agent writes."""
