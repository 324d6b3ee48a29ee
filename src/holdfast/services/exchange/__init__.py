"""Export and import of sessions: JSONL, Markdown, and the redaction of secrets."""
