"""What a running session has used so far, read from what its agent writes."""
