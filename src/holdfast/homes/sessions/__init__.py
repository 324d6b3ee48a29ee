"""The sessions of a home that has a session database and a `sessions/` folder."""
