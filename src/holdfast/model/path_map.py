"""Maps paths of another machine to paths on this one: `--map /old=/new`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping

from holdfast.errors import DamageError, UsageError
from holdfast.model.arguments import StrPath, expanded, text

#: The note in the log on an item that comes back under other paths.
MAPPED = "mapped"


def path_maps(given: Mapping[str, StrPath]) -> dict[str, str]:
    """Check what a caller wrote. The old paths are those of another machine: they are only
    compared. Raises `UsageError` for an old path that is not absolute."""
    maps = {}
    for old, new in given.items():
        if not text(old, "A path to map").startswith("/"):
            raise UsageError(f"{old!r} is not an absolute path on the other machine.")
        maps[os.path.normpath(old)] = str(expanded(new).absolute())
    return maps


def mapped(path: str, maps: Mapping[str, str]) -> str | None:
    """The path on this machine for a path of another one: the longest entry that contains it
    decides. None if no entry does."""
    fitting = [old for old in maps if path == old or path.startswith(f"{old.rstrip('/')}/")]
    if not fitting:
        return None
    old = max(fitting, key=len)
    return maps[old].rstrip("/") + path[len(old.rstrip("/")) :] or "/"


def to_texts(maps: Mapping[str, str]) -> tuple[str, ...]:
    """As strings for the log: a killed run is finished with the same maps."""
    return tuple(json.dumps(each) for each in sorted(maps.items()))


def from_texts(texts: Iterable[str]) -> dict[str, str]:
    try:
        return {str(old): str(new) for old, new in map(json.loads, texts)}
    except (ValueError, TypeError) as error:
        raise DamageError("The log does not say where the paths of that session are.") from error
