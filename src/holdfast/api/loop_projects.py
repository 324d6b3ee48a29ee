"""Which project an agent works in, and which others a tool of it names files of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.model.loop import LoopEvent
from holdfast.policy.project_root import VERSION_CONTROL, project_root


def projects_of(event: LoopEvent) -> Sequence[Path]:
    """The project that the agent works in, and others that the tool names files of: also one that
    lies inside, because a worktree of its own is no part of the project around it."""
    cwd = Path(os.path.realpath(event.cwd))
    found = [project_of(cwd)]
    for name in event.paths:
        try:
            path = Path(os.path.realpath(cwd / name))
        except (OSError, ValueError):
            continue  # no file can have this name
        around = _repository(path.parent)
        if around is not None and around not in found and not found[0].is_relative_to(around):
            found.append(around)
    return found


def project_now(before: str, event: LoopEvent) -> str:
    """The project whose budget holds for a session now. A folder in it is not one of its own, if it
    is no repository."""
    cwd = Path(os.path.realpath(event.cwd))
    if before and cwd.is_relative_to(before) and _repository(cwd) in (None, Path(before)):
        return before
    return str(project_of(cwd))


def project_of(directory: Path) -> Path:
    """A repository is one project, whatever packages lie in it."""
    return _repository(directory) or project_root(directory, exists=os.path.lexists)


def _repository(directory: Path) -> Path | None:
    for place in (directory, *directory.parents):
        start = f"{place}/"
        if any(os.path.lexists(start + sign) for sign in VERSION_CONTROL):
            return place
    return None


def candidates_for(place: Path, event: LoopEvent) -> Iterator[Path]:
    """A home directory may be a repository of its own: then the project in it, or the directory
    that the agent works in."""
    yield place
    cwd = Path(os.path.realpath(event.cwd))
    if cwd != place and cwd.is_relative_to(place):
        inner = project_root(cwd, exists=os.path.lexists)
        yield from dict.fromkeys((inner, cwd))
