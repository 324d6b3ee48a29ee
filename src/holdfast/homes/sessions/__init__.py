"""The sessions of a home that has a database of them and a `sessions/` folder."""
