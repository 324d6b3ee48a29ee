"""Which kinds of homes there are, and which one a folder is."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from holdfast.errors import NotAHomeError, StorageError
from holdfast.homes import holdfast
from holdfast.homes.hermes import signs as hermes
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.model.places import StrPath, named_place
from holdfast.ports import Clock, Home
from holdfast.stores.files import make_private_dir, storage_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How to recognise and open the homes of one agent. `variable` is the environment variable that
    names a home elsewhere than in the default folder. `state` is where Holdfast keeps what is
    its own in such a home, `inside` are other homes that lie in one."""

    name: str
    agent: str
    default_folder: str
    variable: str
    recognise: Callable[[Path], bool]
    open: Callable[[Path, Clock, HomeOptions], Home]
    state: Callable[[Path], Path]
    inside: Callable[[Path], Sequence[Path]] = lambda _: ()


def _open_hermes(root: Path, clock: Clock, options: HomeOptions) -> Home:
    # Loaded on first use: most homes are Holdfast's own.
    opened: Home = import_module("holdfast.homes.hermes.home").HermesHome(
        root, clock=clock, options=options
    )
    return opened


#: The usual one first; which one a folder is, is asked in the order of `_ASKED`.
KINDS: tuple[Kind, ...] = (
    Kind(
        name=holdfast.KIND,
        agent="Holdfast",
        default_folder=holdfast.DEFAULT_FOLDER,
        variable="HOLDFAST_HOME",
        recognise=holdfast.recognise,
        open=lambda root, clock, options: HoldfastHome(root, clock=clock, options=options),
        state=lambda root: root,
    ),
    Kind(
        name=hermes.KIND,
        agent=hermes.AGENT,
        default_folder=hermes.DEFAULT_FOLDER,
        variable=hermes.VARIABLE,
        recognise=hermes.recognise,
        open=_open_hermes,
        state=hermes.state_folder,
        inside=hermes.profiles,
    ),
)
#: Other agents have folders of the same names as ours, and things of their own beside them.
_ASKED = KINDS[::-1]

#: What only another agent leaves in its home. Such a folder is refused, because files that look
#: like ours may mean something else there.
_FOREIGN = {
    hermes.DATABASE: hermes.AGENT,
    "thread-writer-locks": "Codex",
    "state_5.sqlite": "Codex",
    "file-history": "Claude Code",
    "opencode.db": "OpenCode",
    "openclaw.json": "OpenClaw",
    "session-state": "Copilot CLI",
}


def open_home(
    path: StrPath, *, clock: Clock, idle: float | None = None, options: HomeOptions = USUAL
) -> Home:
    """Open the home at `path`, whatever its kind; raises `NotAHomeError` when it is none.

    A `~` at its start is the user's home directory.

    `idle` is a short way to say `HomeOptions(idle=…)`.
    """
    root = check_folder(named_place(path))
    with storage_errors(f"read {root}"):
        names = {entry.name for entry in root.iterdir()}
        kind = kind_of(root)
    if kind is None or kind.name == holdfast.KIND:
        _refuse_foreign(root, names)
    if kind is None:
        wanted = ", ".join(f"`{sign}`" for sign in holdfast.SIGNS)
        raise NotAHomeError(
            f"{root} is not the home of an agent: it has none of {wanted}.",
            hint="Pick another folder with --home, or make it one with `holdfast config init`.",
        )
    return kind.open(root, clock, options if idle is None else replace(options, idle=idle))


def kind_of(root: Path) -> Kind | None:
    """Which kind of home a folder is; None when it is none."""
    return next((kind for kind in _ASKED if kind.recognise(root)), None)


def state_folder(root: Path) -> Path:
    """Where Holdfast keeps what is its own in a home, or would in one that is still to be made."""
    with storage_errors(f"read {root}"):
        kind = kind_of(root) if root.is_dir() else None
    return root if kind is None else kind.state(root)


def config_file(root: Path) -> Path:
    """The configuration of a home. That of another agent is not ours to edit."""
    return state_folder(root) / "config.toml"


def _refuse_foreign(root: Path, names: Collection[str]) -> None:
    foreign = next((agent for sign, agent in _FOREIGN.items() if sign in names), None)
    if foreign and "operations" not in names:
        raise NotAHomeError(
            f"{root} looks like the home of {foreign}, which this version cannot manage.",
            hint="Nothing was touched. Pick a Holdfast home with --home.",
        )


def usual_places(user_home: Path, named: Mapping[str, Path] | None = None) -> list[Path]:
    """Where homes may be: the usual places, those that `named` has by kind, and whatever lies
    inside them. Each is there once, under whichever name."""
    found: dict[str, Path] = {}
    for kind in KINDS:
        elsewhere = (named or {}).get(kind.name)
        usual = user_home / kind.default_folder
        for place in (usual,) if elsewhere is None else (elsewhere, usual):
            for each in (place, *kind.inside(place)):
                found.setdefault(os.path.realpath(each), each)
    return list(found.values())


def check_folder(path: Path) -> Path:
    """The real path of a folder that exists; clear words for everything else."""
    try:
        root = path.resolve(strict=True)
        is_folder = root.is_dir()
    except FileNotFoundError:
        raise NotAHomeError(
            f"There is no home at {path}.",
            hint="Pick another folder with --home, or see `holdfast demo` for a sample.",
        ) from None
    except (OSError, RuntimeError) as error:
        raise StorageError(f"Cannot read {path}: {getattr(error, 'strerror', error)}") from error
    if not is_folder:
        raise NotAHomeError(f"{path} is a file; a home is a folder.")
    return root


def create_state(path: Path) -> Path:
    """Make the folder of what is ours in a home, and the home itself when there is none."""
    state = state_folder(path)
    if state == path:
        create_home(path)
    else:
        with storage_errors(f"create {state}"):
            make_private_dir(state)
    return state


def create_home(path: Path) -> None:
    """Make an empty Holdfast home, private to its owner; fine if the folder is one already."""
    with storage_errors(f"create {path}"):
        if path.exists() and not path.is_dir():
            raise NotAHomeError(f"{path} is a file; a home is a folder.")
        make_private_dir(path)
        kind = kind_of(path)
        if kind is not None and kind.name != holdfast.KIND:
            raise NotAHomeError(
                f"{path} is a home of {kind.agent}, which writes its sessions itself.",
                hint="Nothing was touched. Sessions of your own belong into a Holdfast home.",
            )
        _refuse_foreign(path, {entry.name for entry in path.iterdir()})
