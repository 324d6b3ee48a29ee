"""Which folders are homes of Hermes, and how to open one. It loads no other module of Hermes: the
registry asks for every folder whether it is a home of Hermes."""

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
#: Everything of ours in such a home lies in this one folder, which Hermes ignores.
STATE_FOLDER = ".holdfast"
PROFILES = "profiles"
CHECKPOINTS = "checkpoints"

#: What Hermes makes on its first start, besides its database.
_OWN_FILES = ("SOUL.md", "config.yaml", "gateway.pid", "gateway_state.json")
#: The same, under names that other agents use as well: alone they say nothing.
_COMMON_FOLDERS = ("skills", "memories")
_ENOUGH = 2


def recognise(root: Path) -> bool:
    """By its database. If that says nothing, by the files that Hermes makes on its first start."""
    if (root / DATABASE).is_file():
        # SQLite is loaded only for a folder that has such a file: most homes are Holdfast's own.
        from holdfast.homes.hermes.state_db import schema  # noqa: PLC0415

        looks = schema.is_hermes(root / DATABASE)
        if looks is not None:
            return looks
    if (root / "checkpoints" / "store" / "projects").is_dir():
        return (root / "checkpoints" / "store" / "indexes").is_dir() and _has_files(root, 1)
    return _has_files(root, _ENOUGH)


def state_folder(root: Path) -> Path:
    return root / STATE_FOLDER


def profiles(root: Path) -> Sequence[Path]:
    """The homes of other profiles, which Hermes keeps inside the home of the first one."""
    try:
        inside = sorted((root / PROFILES).iterdir())
    except OSError:
        return []
    return [each for each in inside if each.is_dir() and recognise(each)]


def _has_files(root: Path, enough: int) -> bool:
    own = sum((root / name).exists() for name in _OWN_FILES)
    return own > 0 and own + sum((root / name).exists() for name in _COMMON_FOLDERS) >= enough


def _open(root: Path, clock: Clock, options: HomeOptions) -> Home:
    from holdfast.homes.hermes.home import HermesHome  # noqa: PLC0415 - loaded for a home of Hermes

    return HermesHome(root, clock=clock, options=options)


def _import_checkpoints(*place: Any, **how: Any) -> Sequence[Imported]:
    from holdfast.homes.hermes.checkpoints_import import import_checkpoints  # noqa: PLC0415 - rare

    return import_checkpoints(*place, **how)


HERMES = Kind(
    name="hermes",
    agent="Hermes",
    default_folder=".hermes",
    recognise=recognise,
    open=_open,
    state=state_folder,
    inside=profiles,
    environment="HERMES_HOME",
    signs=(DATABASE,),
    database=DATABASE,
    import_checkpoints=_import_checkpoints,
    has_sources=True,
)
