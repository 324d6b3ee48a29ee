"""One command, or one group of commands, a file."""
