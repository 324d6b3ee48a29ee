"""The archive of sessions: one bundle a session in a folder of its own, and a catalogue."""

#: Where the archive lies in a home whose configuration says nothing of it.
USUAL_FOLDER = "archive"
