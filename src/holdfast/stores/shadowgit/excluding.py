"""List what the default excludes leave out of a project: a walk of its own, made when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.model.checkpoint import Excluded
from holdfast.stores.shadowgit.beside import path_text
from holdfast.stores.shadowgit.git import Git
from holdfast.stores.shadowgit.ignoring import Ignoring
from holdfast.stores.shadowgit.walking import GIT, has_unreadable_rules, join, place
from holdfast.stores.shadowgit.worktrees import is_worktree


def excluded(git: Git, root: bytes) -> Iterator[Excluded]:
    """A folder that is left out is named once, without what is in it. What the project's own
    rules leave out is not named."""
    with Ignoring(git) as ignoring:
        stack = [b""]
        while stack:
            folder = stack.pop()
            here = place(root, folder)
            if has_unreadable_rules(here) or (folder and is_worktree(here)):
                continue
            names = _names(here)
            ignored = ignoring.ask([join(folder, name) for name in names])
            for name, is_directory in names.items():
                path = join(folder, name)
                if path not in ignored:
                    stack += [path] if is_directory else []
                elif path in ignoring.standing:
                    rule = ignoring.standing[path]
                    yield Excluded(path=path_text(path), rule=rule, is_directory=is_directory)


def _names(folder: bytes) -> dict[bytes, bool]:
    """What lies in a folder, and whether it is one itself; nothing of one that cannot be read."""
    try:
        with os.scandir(folder) as listed:
            found = {each.name: each.is_dir(follow_symlinks=False) for each in listed}
    except OSError:
        return {}
    found.pop(GIT, None)
    return found
