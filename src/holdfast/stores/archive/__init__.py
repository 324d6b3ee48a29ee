"""The archive of sessions: one bundle for each session, and a catalogue of them."""

#: The folder of the archive in a home whose configuration names none.
USUAL_FOLDER = "archive"
USUAL_CODEC = "zstd"
