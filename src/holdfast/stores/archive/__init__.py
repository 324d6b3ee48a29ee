"""The archive of sessions: one bundle a session in a folder of its own, and a catalogue."""
