"""Count the lines that came and went."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pygit2

from holdfast.model.checkpoint import Lines
from holdfast.stores.shadowgit.git import Git
from holdfast.stores.shadowgit.trees import Node

#: So many files are counted when a checkpoint is taken; more of them when somebody asks.
COUNTED_AT_ONCE = 200


def count_lines(
    repository: pygit2.Repository,
    changed: Collection[tuple[Node | None, Node | None]],
    new: Callable[[bytes], bytes | None],
) -> Lines | None:
    """Lines of the changed files, counted in process; None when they are too many for that, or when
    one of them is damaged in the store: that is no reason to go without the next checkpoint.

    `new` has the content of what is not in the repository yet.
    """
    if len(changed) > COUNTED_AT_ONCE:
        return None
    insertions = deletions = 0
    for was, now in changed:
        try:
            before, after = _content(repository, was, new), _content(repository, now, new)
        except (pygit2.GitError, KeyError):
            return None
        patch = pygit2.Patch.create_from(before, after, context_lines=0)
        _, added, removed = patch.line_stats
        insertions += added
        deletions += removed
    return Lines(insertions=insertions, deletions=deletions)


def _content(
    repository: pygit2.Repository, node: Node | None, new: Callable[[bytes], bytes | None]
) -> bytes | None:
    if node is None:
        return None
    data = new(node[1])
    if data is not None:
        return data
    # As bytes: for an object libgit2 would ask attributes and configuration, the user's too.
    return repository.odb.read(pygit2.Oid(raw=node[1]))[1]


def git_lines(git: Git, old: str, new: str) -> Lines:
    """The same for any two trees, by `git diff`."""
    said = git.run("diff-tree", "-r", "--numstat", "-z", "--no-renames", old, new)
    insertions = deletions = 0
    for row in said.output.split(b"\0"):
        added, _, rest = row.partition(b"\t")
        removed = rest.partition(b"\t")[0]
        # Binary files have a dash.
        insertions += int(added) if added.isdigit() else 0
        deletions += int(removed) if removed.isdigit() else 0
    return Lines(insertions=insertions, deletions=deletions)
