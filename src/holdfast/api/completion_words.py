"""Completions that a shell can offer for a word: ids, sources, homes and agents.

Nothing here changes anything, not even a cache, and nothing waits. What cannot be read at once is
not offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.api.place import Place, usual_homes, usual_places_of
from holdfast.homes.foreign.notes import Notes
from holdfast.homes.registry import kind_of, state_folder
from holdfast.model.part import Unit
from holdfast.stores.sqlite.names import session_names, source_names
from holdfast.value import dataclass

#: More words than fit on a screen do not help to choose.
MOST = 50
_SHORT = 12
_NOTES = "index/units.json"


@dataclass(frozen=True, slots=True)
class Offer:
    """A word with a description. `at` is the time that some words are sorted by."""

    word: str
    about: str = ""
    at: float = 0.0


def homes(user_home: Path, environ: Mapping[str, str]) -> Sequence[Path]:
    """The homes of the machine."""
    return [path for path in usual_homes(user_home, environ) if path.is_dir()]


def agents(user_home: Path, environ: Mapping[str, str], prefix: str) -> Sequence[Offer]:
    """The names of agents that have a home on this machine."""
    places = usual_places_of(user_home, environ)
    return [
        Offer(name, str(path))
        for name, path in places.items()
        if name.startswith(prefix) and path.is_dir()
    ]


def sessions(roots: Iterable[Path], prefix: str) -> Sequence[Offer]:
    """Sessions of these homes whose id begins with `prefix`, the latest first."""
    found = [offer for root in roots for offer in _sessions(root, prefix)]
    return sorted(found, key=lambda each: -each.at)[:MOST]


def _sessions(root: Path, prefix: str) -> Sequence[Offer]:
    if (database := _database(root)) is not None:
        return [Offer(*each) for each in session_names(database, prefix, MOST)]
    found = [each for each in _noted(root) if each.id.startswith(prefix)]
    return [Offer(each.id, each.title or "", each.active) for each in found]


def sources(root: Path, prefix: str) -> Sequence[Offer]:
    """The sources of the sessions of a home."""
    if (database := _database(root)) is not None:
        found = source_names(database)
    else:
        found = sorted({each.source or "cli" for each in _noted(root)})
    return [Offer(each) for each in found if each.startswith(prefix)]


def checkpoints(place: Place, prefix: str, here: Path | None) -> Iterator[Offer]:
    """Checkpoints of the project around `here`, or of all projects if there is none."""
    store = place.home.checkpoint_store() if place.home.has_checkpoints() else None
    if store is None:
        return
    around = () if here is None else (here, *here.parents)
    known = {each.workdir for each in store.projects() if not each.machine}
    workdir = next((each for each in around if str(each) in known), None)
    found = [each for each in store.list(workdir) if each.id.startswith(prefix)]
    for each in found[:MOST]:
        yield Offer(each.id[: max(_SHORT, len(prefix))], each.name or each.reason)


def operations(place: Place, prefix: str) -> Sequence[Offer]:
    """Operations of the log, the latest first."""
    found = [
        Offer(each.id, each.command)
        for each in reversed(place.home.log.read().operations)
        if each.id.startswith(prefix)
    ]
    return found[:MOST]


def _database(root: Path) -> Path | None:
    """The database of a home, if its kind keeps sessions in one with a known schema."""
    kind = kind_of(root)
    return None if kind is None or kind.database is None else root / kind.database


def _noted(root: Path) -> Sequence[Unit]:
    """The sessions that the last look at another agent's home found."""
    return Notes(state_folder(root) / _NOTES).units()
