"""Sessions out of a store and into one: JSONL, Markdown, and secrets kept back."""
