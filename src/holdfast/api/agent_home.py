"""The homes of agents on a machine: finds and names them, and those that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from holdfast.errors import (
    ConfigError,
    HoldfastError,
    MissingHomeError,
    NotAHomeError,
    UsageError,
    whose_bug,
)
from holdfast.homes.registry import kind_of, kinds, state_folder
from holdfast.model.arguments import StrPath, expanded, is_path, shown
from holdfast.model.session import SessionFilter
from holdfast.stores.files import storage_errors
from holdfast.value import dataclass

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from holdfast.api.place import Place
    from holdfast.homes.kind import Kind

_T = TypeVar("_T")
#: How many of the latest sessions of a home are read to learn where their agent worked.
_LATEST = 500
#: Characters of a pattern; `homes` takes only paths.
_PATTERN = frozenset("*?")
#: Usage errors that concern one home, not the request.
OF_THE_HOME = (ConfigError, NotAHomeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHome:
    """One home of the machine. `agent` is the short name of its agent ("codex"), `title` what
    people call that agent. `name` is what `holdfast.open` and `--home` take for this home: the
    short name, or the path where that name means another home. `label` tells the homes of a list
    apart."""

    path: Path
    agent: str
    title: str
    name: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadHome:
    """A home that could not be read, and why."""

    path: Path
    error: HoldfastError


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked(Generic[_T]):
    """The result for each home that can be read, and the homes that cannot."""

    seen: Sequence[tuple[AgentHome, _T]]
    unread: Sequence[UnreadHome]


#: A home of the machine: itself, the name or label of one, or its path.
HomeRef: TypeAlias = AgentHome | StrPath


def named_home(known: Sequence[AgentHome], wanted: HomeRef) -> AgentHome:
    """The home that a caller names; raises `UsageError` when it is none of these, or several."""
    if isinstance(wanted, AgentHome):
        return wanted
    if not is_path(wanted):
        raise UsageError(
            f"A home must be an item of `homes`, the name of one or its path, not {shown(wanted)}."
        )
    real = os.path.realpath(expanded(wanted))
    by_label = [each for each in known if wanted == each.label or real == str(each.path)]
    found = by_label or [each for each in known if wanted == each.agent]
    if len(found) == 1:
        return found[0]
    labels = [each.label for each in known]
    if found:
        several = ", ".join(each.label for each in found)
        raise UsageError(f"{wanted!r} could be any of {several}.", hint="Name one of them.")
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = get_close_matches(os.fspath(wanted), labels, n=1)
    also = f"Did you mean {near[0]!r}? " if near else ""
    raise UsageError(
        f"No home of this machine is {os.fspath(wanted)!r}.",
        hint=f"{also}The homes are {', '.join(labels)}." if labels else "There are none here.",
    )


def find_homes(
    places: Iterable[Path], usual: Mapping[str, Path], agents: Collection[str] | None
) -> tuple[Sequence[AgentHome], Sequence[UnreadHome]]:
    """The homes at these places, of these agents or of all, and those that cannot be read.
    `usual` has the default home of each agent."""
    check_agents(agents or ())
    homes: list[AgentHome] = []
    unread: list[UnreadHome] = []
    for path in places:
        try:
            with storage_errors(f"read {path}"):
                if not path.is_dir():
                    continue
                next(path.iterdir(), None)  # one that cannot be read would have no signs
                kind = kind_of(path)
        except HoldfastError as error:
            if agents is None or any(path == usual[each] for each in agents):
                unread.append(UnreadHome(path=path, error=error))
            continue
        if kind is None or (agents is not None and kind.name not in agents):
            continue
        real = Path(os.path.realpath(path))
        is_usual = os.path.realpath(usual[kind.name]) == str(real)
        homes.append(agent_home(real, kind, is_usual=is_usual, label=path.name))
    return homes, unread


def looks_like_pattern(place: str) -> bool:
    return not _PATTERN.isdisjoint(place)


def missing_homes(listed: Iterable[str]) -> Iterator[UnreadHome]:
    """The homes in the configuration that are not there, or are empty, as the folder is in which a
    disk is not mounted. Nobody would notice that they are no longer looked after. What looks like a
    pattern names no folder; `config check` warns of it."""
    for each in listed:
        path = expanded(each)
        try:
            state = "is empty" if next(path.iterdir(), None) is None else ""
        except (FileNotFoundError, NotADirectoryError):
            state = "" if path.exists() or looks_like_pattern(each) else "does not exist"
        except OSError:
            continue  # `find_homes` reports it
        if state:
            error = MissingHomeError(
                f"{path} {state}, but the configuration lists it in `homes`.",
                hint="If its disk is not mounted, mount it. If it is gone for good, take it out of "
                "the list: holdfast config edit",
            )
            yield UnreadHome(path=path, error=error)


def agent_home(
    path: Path, kind: Kind, *, is_usual: bool = False, label: str | None = None
) -> AgentHome:
    return AgentHome(
        path=path,
        agent=kind.name,
        title=kind.agent,
        name=kind.name if is_usual else str(path),
        label=kind.name if is_usual else f"{kind.name}/{label or path.name}",
    )


def title_of(agent: str) -> str:
    """What people call the agent with this short name."""
    return next((kind.agent for kind in kinds() if kind.name == agent), agent)


def latest_folders(place: Place) -> set[str]:
    """The working directories of the latest sessions of a home. An agent that leaves everything in
    the project, as aider does, keeps no list of its projects. Other agents recorded the projects in
    which they worked, so the rest of the disk need not be searched."""
    store = place.home.session_store()
    found = () if store is None else store.find(SessionFilter(), limit=_LATEST)
    return {each.cwd for each in found if each.cwd}


def homes_in_projects(folders: Iterable[str], user_home: Path) -> Iterator[tuple[Path, Kind]]:
    """Find homes in these folders and in the folders above them, up to the home directory of the
    user: an agent may have worked in a subfolder."""
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


def own_folder(home: AgentHome) -> Path | None:
    """The folder for our own files in a home; None if it is a link, which leads out of the home."""
    try:
        state = state_folder(home.path)
    except (HoldfastError, OSError):
        return None
    return None if state != home.path and state.is_symlink() else state


def check_agents(agents: Iterable[str]) -> None:
    """Raise `UsageError` for a name of no agent."""
    for each in agents:
        known = [kind.name for kind in kinds()]
        if each not in known:
            from difflib import get_close_matches  # noqa: PLC0415 - rarely needed

            near = get_close_matches(each, known, n=1)
            also = f"Did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"There is no agent {each!r}.", hint=f"{also}The agents are {', '.join(known)}."
            )


def bug_in(home: AgentHome, error: Exception) -> HoldfastError:
    package = whose_bug(error) or "Holdfast"
    return HoldfastError(
        f"Cannot read {home.path}: {type(error).__name__}: {error}",
        hint=f"This is a bug in {package}. The other homes are not affected. Please report it.",
    )
