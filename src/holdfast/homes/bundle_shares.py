"""What sessions take in the trash: their parts of the bundles that they share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from sqlite3 import Error as SqliteError

from holdfast.errors import DamageError
from holdfast.stores.sqlite import bundle
from holdfast.stores.sqlite.bundle import BundleFolder


def shared(path: Path | None, weights: Mapping[str, int]) -> Mapping[str, int]:
    """The size of a bundle, shared out by weight; the parts make up the whole."""
    if path is None or not weights:
        return {}
    return _parts(bundle.size(path), weights)


def _parts(whole: int, weights: Mapping[str, int]) -> Mapping[str, int]:
    total = sum(weights.values()) + len(weights)
    parts = {name: whole * (weight + 1) // total for name, weight in weights.items()}
    parts[next(iter(parts))] += whole - sum(parts.values())
    return parts


def freed_by(folder: BundleFolder, path: Path, gone: Collection[str]) -> Mapping[str, int]:
    """Take copies out of a bundle; what that freed, shared out among them."""
    before = bundle.size(path)
    try:
        with bundle.opened(path) as copies:
            leaving = [copied.id for copied in bundle.contents(copies) if copied.id in gone]
    except (DamageError, SqliteError):
        leaving = list(gone)  # nothing can be saved in it
        path.unlink()
        left = None
    else:
        if not leaving:
            return {}
        left = folder.without(path, leaving)
    freed = before - (bundle.size(left) if left else 0)
    return _parts(max(0, freed), dict.fromkeys(leaving, 1))
