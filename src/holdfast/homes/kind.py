"""A kind of home: how to recognise and open the homes of one agent. Holdfast's own is one of them.

Recognising a home must be cheap: a command that takes a checkpoint does nothing else. So the class
of a home, and SQLite with it, is loaded only when a home is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdfast.homes.options import USUAL, HomeOptions
from holdfast.value import dataclass

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Protocol

    from holdfast.homes.holdfast import HoldfastHome
    from holdfast.model.checkpoint import Imported
    from holdfast.model.part import Transcript
    from holdfast.ports.home import Home
    from holdfast.ports.runs import Clock, Progress
    from holdfast.stores.checkpoints.store import ShadowGitStore

    class CheckpointImport(Protocol):
        """Imports the checkpoints of a home into one of our stores: those of `workdir`, or all of
        them."""

        def __call__(
            self,
            home: Path,
            store: ShadowGitStore,
            *,
            workdir: Path | None,
            now: float,
            dry_run: bool,
            progress: Progress,
        ) -> Sequence[Imported]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`recognise` is true for a folder that may be such a home; `is_proven` needs something in it
    that only this agent writes, and `is_emptied` folders as only this agent makes them for its
    sessions. `state` is where Holdfast keeps its own files in such a home; `inside` are other homes
    inside one. `environment` is the variable that overrides the default folder, and `named` derives
    the home from its value if the value is not the home itself. `signs` are names of files that
    only this agent creates. Only an agent that takes checkpoints has `import_checkpoints`.
    `transcripts` returns the sessions in a file of this agent, and None for any other file.
    `database` is the SQLite file whose table `sessions` has the ids, if there is one.
    `in_projects` is the file whose presence makes a user's project a home of this agent.
    `has_sources` is true if its sessions come from many places, as ours do (a chat, a job, a
    command line); imported sessions of any other kind get the agent as their source."""

    name: str
    agent: str
    default_folder: str
    recognise: Callable[[Path], bool]
    open: Callable[[Path, Clock, HomeOptions], Home]
    state: Callable[[Path], Path]
    is_proven: Callable[[Path], bool] = lambda _: True
    is_emptied: Callable[[Path], bool] = lambda _: False
    inside: Callable[[Path], Sequence[Path]] = lambda _: ()
    environment: str = ""
    named: Callable[[str], str] = lambda value: value
    signs: tuple[str, ...] = ()
    import_checkpoints: CheckpointImport | None = None
    transcripts: Callable[[Path], Iterator[Transcript] | None] = lambda _: None
    database: str | None = None
    has_sources: bool = False
    in_projects: str = ""


# --- Holdfast's own homes -------------------------------------------------------------------------

KIND = "holdfast"
DATABASE = "sessions.db"
SESSION_FILES = "sessions"
CHECKPOINTS = "checkpoints"
LOG = "operations"
SIGNS = (DATABASE, LOG, "config.toml", SESSION_FILES, CHECKPOINTS)
#: Signs that no other agent is known to leave in its home. The last one is in the checkpoint store.
_SURE_SIGNS = (DATABASE, LOG, f"{CHECKPOINTS}/store/format")
#: Files next to our database through which writers take turns.
_GATE = f"{DATABASE}-gate"
_LOG_BEGINS = b'{"format":'


def is_surely_ours(root: Path) -> bool:
    """True if there is something that only Holdfast makes. One common name proves nothing: aider's
    home is the user's own project, which may have a `sessions.db` or a folder `operations`.

    The database itself is not opened: closing it would drop the locks that this process has on it.
    """
    folder = str(root)
    return (
        (os.path.isfile(f"{folder}/{DATABASE}") and os.path.isfile(f"{folder}/{_GATE}"))  # noqa: PTH113
        or has_our_log(f"{folder}/{LOG}")
        or (
            _head(f"{folder}/{CHECKPOINTS}/store/format").strip().isdigit()
            and os.path.isdir(f"{folder}/{CHECKPOINTS}/store/objects/pack")  # noqa: PTH112
        )
    )


def is_certain(root: Path) -> bool:
    """True for a home that may be repaired: by its contents, or by its place."""
    return root.name == ".holdfast" or is_surely_ours(root)


def has_our_log(folder: str) -> bool:
    """True if this folder is a log of operations that Holdfast wrote."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - pathlib is slow, and every command comes here
    except OSError:
        return False
    records = (name for name in names if name.endswith(".jsonl"))
    return any(_head(f"{folder}/{name}") == _LOG_BEGINS for name in records)


def _head(path: str) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, len(_LOG_BEGINS))
    except OSError:  # a folder
        return b""
    finally:
        os.close(fd)


def may_be_ours(root: Path) -> bool:
    """True if there is a name that no other agent is known to leave."""
    return any((root / sign).exists() for sign in _SURE_SIGNS)


def recognise(root: Path) -> bool:
    return any((root / sign).exists() for sign in SIGNS)


def open_own(root: Path, clock: Clock, options: HomeOptions = USUAL) -> HoldfastHome:
    """Open a folder as one of Holdfast's own homes, whatever it contains."""
    from holdfast.homes.holdfast import HoldfastHome  # noqa: PLC0415 - loaded to open a home

    return HoldfastHome(root, clock=clock, options=options)


OWN = Kind(
    name=KIND,
    agent="Holdfast",
    default_folder=".holdfast",
    recognise=recognise,
    open=open_own,
    state=lambda root: root,
    environment="HOLDFAST_HOME",
    database=DATABASE,
    has_sources=True,
)
