"""What agents delete by themselves, as their own settings say."""

from __future__ import annotations

from pathlib import Path

from holdfast.model.vault import Sweep
from holdfast.ports.formats import Format


def sweep_of(form: Format, root: Path) -> Sweep | None:
    """None for an agent that deletes no session by itself, as far as is known."""
    find = getattr(form, "sweep", None)
    found: Sweep | None = None if find is None else find(root)
    return found
