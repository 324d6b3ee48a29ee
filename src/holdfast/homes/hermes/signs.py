"""Which folders are homes of Hermes, told from what lies in them and not from their names."""

from __future__ import annotations

from pathlib import Path

from holdfast.homes.hermes.state_db import schema

KIND = "hermes"
AGENT = "Hermes"
DEFAULT_FOLDER = ".hermes"
DATABASE = "state.db"
#: All that is ours in such a home lies in this one folder, which Hermes ignores.
STATE_FOLDER = ".holdfast"
PROFILES = "profiles"
CHECKPOINTS = "checkpoints"

#: What Hermes makes on its first start, beside its database.
_BESIDE = ("SOUL.md", "config.yaml", "gateway.pid", "gateway_state.json", "skills", "memories")
_ENOUGH = 2


def recognise(root: Path) -> bool:
    """Its database says so; where that says nothing, some of what lies beside it must."""
    looks = schema.is_hermes(root / DATABASE)
    if looks is not None:
        return looks
    if (root / "checkpoints" / "store" / "projects").is_dir():
        return (root / "checkpoints" / "store" / "indexes").is_dir() and _is_accompanied(root, 1)
    return _is_accompanied(root, _ENOUGH)


def state_folder(root: Path) -> Path:
    return root / STATE_FOLDER


def profiles(root: Path) -> list[Path]:
    """The homes of other profiles, which Hermes keeps inside the home of the first one."""
    try:
        inside = sorted((root / PROFILES).iterdir())
    except OSError:
        return []
    return [each for each in inside if each.is_dir() and recognise(each)]


def _is_accompanied(root: Path, enough: int) -> bool:
    return sum((root / name).exists() for name in _BESIDE) >= enough
