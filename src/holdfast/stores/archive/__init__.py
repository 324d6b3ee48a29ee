"""The archive of sessions: one bundle for each session, and a catalogue of them."""
