"""The homes of agents on a machine: found, named, and those that nobody can look into."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.errors import ConfigError, HoldfastError, NotAHomeError, UsageError, whose_bug
from holdfast.homes.registry import kind_of, state_folder
from holdfast.stores.files import storage_errors
from holdfast.value import dataclass

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from holdfast.homes.kind import Kind

_T = TypeVar("_T")
#: Errors of usage that are about one home, not about what was asked.
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
    """What was seen of each home that can be read, and those that cannot."""

    seen: Sequence[tuple[AgentHome, _T]]
    unread: Sequence[UnreadHome]


def find_homes(
    places: Iterable[Path], usual: Mapping[str, Path], agents: Collection[str] | None
) -> tuple[Sequence[AgentHome], Sequence[UnreadHome]]:
    """The homes at these places, of these agents or of all, and those that cannot be read.
    `usual` is where each agent has its home if nobody says otherwise."""
    _check_agents(agents or (), usual)
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


def own_folder(home: AgentHome) -> Path | None:
    """Where our own files are in a home. A link would lead out of it."""
    try:
        state = state_folder(home.path)
    except (HoldfastError, OSError):
        return None
    return None if state != home.path and state.is_symlink() else state


def _check_agents(agents: Iterable[str], known: Collection[str]) -> None:
    for each in agents:
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
