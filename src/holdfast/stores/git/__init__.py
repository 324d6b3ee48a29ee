"""A small git library: objects, packs, trees, commits, references, the index file, the git program.

It does not depend on checkpoints, projects or homes. Small reads and writes happen in process; the
git program does bulk work such as packing and fsck.
"""
