"""Homes that lie in projects of the user. An agent that leaves everything in the project, as aider
does, has no list of its projects anywhere. Other agents worked in the same projects and recorded
where, so nothing else of the disk is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.registry import kinds
from holdfast.model.session import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.api.place import Place
    from holdfast.homes.kind import Kind

#: So many of the latest sessions of a home say where their agent worked.
_LATEST = 500


def latest_folders(place: Place) -> set[str]:
    """The working directories of the latest sessions of a home."""
    store = place.home.session_store()
    found = () if store is None else store.find(SessionFilter(), limit=_LATEST)
    return {each.cwd for each in found if each.cwd}


def homes_in_projects(folders: Iterable[str], user_home: Path) -> Iterator[tuple[Path, Kind]]:
    """What these folders are homes of, and the folders around them, as far as those lie below the
    home directory: an agent may have worked in a subfolder."""
    signs = [(kind.in_projects, kind) for kind in kinds() if kind.in_projects]
    below = f"{os.path.realpath(user_home)}{os.sep}"
    seen: set[str] = set()
    for folder in folders if signs else ():
        place = os.path.realpath(folder)
        while place not in seen:
            seen.add(place)
            if not place.startswith(below):
                break
            place = os.path.dirname(place)  # noqa: PTH120 - for thousands of folders
    for place in sorted(seen):
        for sign, kind in signs:
            if os.path.isfile(os.path.join(place, sign)):  # noqa: PTH113, PTH118 - as above
                yield Path(place), kind
