"""A YAML file with a name and a value on each line and nothing within another. A list of sessions
reads one for each of them, and a whole parser would take longer to load than the list to make."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from holdfast.stores.files import read_file


def flat_yaml(path: Path) -> dict[str, str]:
    """The values by their names; nothing of a file that cannot be read."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in read_file(path).decode(errors="replace").splitlines():
            name, colon, value = line.partition(": ")
            if colon and name.isidentifier():
                found[name] = _plain(value.strip())
    return found


def _plain(value: str) -> str:
    if value.startswith('"'):
        with suppress(ValueError):
            return str(json.loads(value))
    return value[1:-1].replace("''", "'") if value.startswith("'") else value
