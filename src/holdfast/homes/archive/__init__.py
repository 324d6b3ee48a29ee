"""The archive of a home: moving sessions into it, restoring them, and reading it."""
