"""Where an output file may go. An export that replaces the store, or a transcript of an agent,
loses what it was made of: no copy and no operation brings that back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.errors import HoldfastError, UsageError
from holdfast.homes.kind import is_surely_ours
from holdfast.homes.registry import agent_at, kind_of
from holdfast.model.arguments import expanded
from holdfast.stores.files import BESIDE_A_DATABASE, SQLITE_MAGIC

_ELSEWHERE = "Name a file outside the homes of agents, such as ~/sessions.jsonl."
#: Our own home, and the folder of our own files in another agent's home.
_OURS = ".holdfast"


def check_output(path: Path, homes: Iterable[Path] = ()) -> None:
    """Raise if an output file would be in a home, or replace a database. `homes` are those that the
    caller works on; others are told by where they are, without a search."""
    known = {os.path.realpath(each) for each in homes}
    # Both, because a link is followed by some writers and replaced by others.
    places = (_real_name(path), Path(os.path.realpath(path)))
    for place in places:
        home = next((each for each in place.parents if _is_home(each, known)), None)
        if home is not None:
            raise UsageError(
                f"{path} is in the home {home}, so it was not written.", hint=_ELSEWHERE
            )
    if any(_is_database(each) for place in places for each in _databases_of(place)):
        raise UsageError(
            f"{path} is a file of an SQLite database, so it was not replaced.",
            hint="Name another file.",
        )


def _real_name(path: Path) -> Path:
    """The path with its folder resolved, but not the last name."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - `..` as the system resolves it comes next
    return Path(os.path.realpath(path.parent)) / whole.name


def _is_home(folder: Path, known: set[str]) -> bool:
    if str(folder) in known or folder.name == _OURS or folder == _named_home():
        return True
    try:
        if is_surely_ours(folder):
            return True
        # Many programs have folders that look like those of an agent: the place counts as well.
        agent = agent_at(folder)
        return agent is not None and kind_of(folder) is agent
    except (HoldfastError, OSError):
        return False


def _named_home() -> Path | None:
    """Our own home, if a variable names it."""
    named = os.environ.get("HOLDFAST_HOME")  # noqa: TID251 - as in `find_home`
    return Path(os.path.realpath(expanded(named))) if named else None


def _databases_of(place: Path) -> Iterator[Path]:
    yield place
    for ending in BESIDE_A_DATABASE:
        if place.name.endswith(ending) and len(place.name) > len(ending):
            yield place.with_name(place.name.removesuffix(ending))


def _is_database(path: Path) -> bool:
    """True for a SQLite file. It is not in a home, so nothing here has it open: closing the file
    would drop locks."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(fd, len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:  # a folder
        return False
    finally:
        os.close(fd)
