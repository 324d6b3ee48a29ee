"""Which kinds of homes there are, and which one a folder is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.errors import NotAHomeError, StorageError
from holdfast.homes import holdfast
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.ports import Clock, Home
from holdfast.stores.files import make_private_dir, storage_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How to recognise and open the homes of one agent."""

    name: str
    default_folder: str
    recognise: Callable[[Path], bool]
    open: Callable[[Path, Clock, HomeOptions], Home]


KINDS: tuple[Kind, ...] = (
    Kind(
        name=holdfast.KIND,
        default_folder=holdfast.DEFAULT_FOLDER,
        recognise=holdfast.recognise,
        open=lambda root, clock, options: HoldfastHome(root, clock=clock, options=options),
    ),
)

#: What only another agent leaves in its home. Such a folder is refused, because files that look
#: like ours may mean something else there.
_FOREIGN = {
    "state.db": "Hermes",
    "thread-writer-locks": "Codex",
    "state_5.sqlite": "Codex",
    "file-history": "Claude Code",
    "opencode.db": "OpenCode",
    "openclaw.json": "OpenClaw",
    "session-state": "Copilot CLI",
}


def open_home(
    path: Path, *, clock: Clock, idle: float | None = None, options: HomeOptions = USUAL
) -> Home:
    """Open the home at `path`, whatever its kind; raises `NotAHomeError` when it is none.

    `idle` is a short way to say `HomeOptions(idle=…)`.
    """
    root = check_folder(path)
    with storage_errors(f"read {root}"):
        names = {entry.name for entry in root.iterdir()}
        kind = next((kind for kind in KINDS if kind.recognise(root)), None)
    _refuse_foreign(root, names)
    if kind is None:
        wanted = ", ".join(f"`{sign}`" for sign in holdfast.SIGNS)
        raise NotAHomeError(
            f"{root} is not the home of an agent: it has none of {wanted}.",
            hint="Pick another folder with --home, or make it one with `holdfast config init`.",
        )
    return kind.open(root, clock, options if idle is None else replace(options, idle=idle))


def _refuse_foreign(root: Path, names: Collection[str]) -> None:
    foreign = next((agent for sign, agent in _FOREIGN.items() if sign in names), None)
    if foreign and "operations" not in names:
        raise NotAHomeError(
            f"{root} looks like the home of {foreign}, which this version cannot manage.",
            hint="Nothing was touched. Pick a Holdfast home with --home.",
        )


def usual_places(user_home: Path) -> list[Path]:
    """Where homes are when nobody said otherwise."""
    return [user_home / kind.default_folder for kind in KINDS]


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


def create_home(path: Path) -> None:
    """Make an empty Holdfast home, private to its owner; fine if the folder is one already."""
    with storage_errors(f"create {path}"):
        if path.exists() and not path.is_dir():
            raise NotAHomeError(f"{path} is a file; a home is a folder.")
        make_private_dir(path)
        _refuse_foreign(path, {entry.name for entry in path.iterdir()})
