"""The session store on SQLite: one file in the home, safe for many processes at once."""
