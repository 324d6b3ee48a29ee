"""The project that an agent works in, and other projects whose files a tool names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.model.loop import LoopEvent
from holdfast.policy.project_root import VERSION_CONTROL, project_root


def projects_of(event: LoopEvent) -> Sequence[Path]:
    """The agent's project, and other projects whose files the tool names. That includes a
    repository inside the agent's project, because it is not part of the project around it."""
    cwd = Path(os.path.realpath(event.cwd))
    found = [project_of(cwd)]
    for name in event.paths:
        try:
            path = Path(os.path.realpath(cwd / name))
        except (OSError, ValueError):
            continue  # not a possible file name
        around = _repository(path.parent)
        if around is not None and around not in found and not found[0].is_relative_to(around):
            found.append(around)
    return found


def project_now(before: str, event: LoopEvent) -> str:
    """The project whose budget applies to a session now. A folder inside the previous project is
    not a project of its own unless it is a repository."""
    cwd = Path(os.path.realpath(event.cwd))
    if before and cwd.is_relative_to(before) and _repository(cwd) in (None, Path(before)):
        return before
    return str(project_of(cwd))


def project_of(directory: Path) -> Path:
    """The project of a directory: its repository, whatever packages are in it, or else its project
    root."""
    return _repository(directory) or project_root(directory, exists=os.path.lexists)


def _repository(directory: Path) -> Path | None:
    for place in (directory, *directory.parents):
        start = f"{place}/"
        if any(os.path.lexists(start + sign) for sign in VERSION_CONTROL):
            return place
    return None


def candidates_for(place: Path, event: LoopEvent) -> Iterator[Path]:
    """The directories to try for a checkpoint. A home directory may itself be a repository, which
    is too broad: then the project in it is next, and the agent's directory."""
    yield place
    cwd = Path(os.path.realpath(event.cwd))
    if cwd != place and cwd.is_relative_to(place):
        inner = project_root(cwd, exists=os.path.lexists)
        yield from dict.fromkeys((inner, cwd))
