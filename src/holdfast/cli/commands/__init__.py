"""One command, or one group of commands, per file."""
