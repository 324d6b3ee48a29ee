"""Recognises and opens Hermes homes. Imports no other module of Hermes at load time: the registry
calls `recognise` for every folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.homes.kind import Kind

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

    from holdfast.homes.options import HomeOptions
    from holdfast.model.checkpoint import Imported
    from holdfast.ports.home import Home
    from holdfast.ports.runs import Clock

DATABASE = "state.db"
#: Our files in such a home are all in this one folder, which Hermes ignores.
STATE_FOLDER = ".holdfast"
PROFILES = "profiles"
CHECKPOINTS = "checkpoints"

#: Files that Hermes creates on its first start, in addition to its database.
_OWN_FILES = ("SOUL.md", "config.yaml", "gateway.pid", "gateway_state.json")
#: The same, but with names that other agents use too: alone they prove nothing.
_COMMON_FOLDERS = ("skills", "memories")
_ENOUGH = 2


def recognise(root: Path) -> bool:
    """Recognise a home by its database, or failing that, by the files that Hermes creates on its
    first start."""
    if (root / DATABASE).is_file():
        # SQLite is loaded only for a folder with such a file: most homes are Holdfast's own.
        from holdfast.homes.hermes.state_db import schema  # noqa: PLC0415

        looks = schema.is_hermes(root / DATABASE)
        if looks is not None:
            return looks
    if (root / "checkpoints" / "store" / "projects").is_dir():
        return (root / "checkpoints" / "store" / "indexes").is_dir() and _has_files(root, 1)
    return _has_files(root, _ENOUGH)


def is_proven(root: Path) -> bool:
    """Its database, the file that describes the agent next to one that cannot be read, or its
    checkpoint store. Many programs have `config.yaml` and `skills`."""
    if (root / DATABASE).is_file():
        from holdfast.homes.hermes.state_db import schema  # noqa: PLC0415 - as in `recognise`

        looks = schema.is_hermes(root / DATABASE)
        return (root / "SOUL.md").exists() if looks is None else looks
    store = root / CHECKPOINTS / "store"
    return all((store / each).is_dir() for each in ("projects", "indexes"))


def state_folder(root: Path) -> Path:
    return root / STATE_FOLDER


def profiles(root: Path) -> Sequence[Path]:
    """The homes of other profiles, which Hermes stores inside the first one."""
    try:
        inside = sorted((root / PROFILES).iterdir())
    except OSError:
        return []
    return [each for each in inside if each.is_dir() and recognise(each)]


def _has_files(root: Path, enough: int) -> bool:
    own = sum((root / name).exists() for name in _OWN_FILES)
    return own > 0 and own + sum((root / name).exists() for name in _COMMON_FOLDERS) >= enough


def _open(root: Path, clock: Clock, options: HomeOptions) -> Home:
    from holdfast.homes.hermes.home import HermesHome  # noqa: PLC0415 - loaded to open a home

    return HermesHome(root, clock=clock, options=options)


def _import_checkpoints(*place: Any, **how: Any) -> Sequence[Imported]:
    from holdfast.homes.hermes.checkpoints_import import import_checkpoints  # noqa: PLC0415 - rare

    return import_checkpoints(*place, **how)


HERMES = Kind(
    name="hermes",
    agent="Hermes",
    default_folder=".hermes",
    recognise=recognise,
    is_proven=is_proven,
    open=_open,
    state=state_folder,
    inside=profiles,
    environment="HERMES_HOME",
    signs=(DATABASE,),
    database=DATABASE,
    import_checkpoints=_import_checkpoints,
    has_sources=True,
)
