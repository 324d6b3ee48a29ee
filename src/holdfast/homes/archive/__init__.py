"""The archive of a home: what moves into it, what comes back, and who reads it."""
