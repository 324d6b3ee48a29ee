"""The vault of a home: second names of sessions that another agent may delete."""
