"""A small git library: objects, packs, trees, references, the index file, and the git program."""
