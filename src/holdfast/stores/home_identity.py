"""The identity of this home among the homes that share a store.

<state>/operations/member.json     the home's names, the current one first, and where it was

A home that was copied or moved takes a new name but keeps its earlier ones: the files of operations
under those names are here.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.processes import machine_id

_FOLDER = "operations"
_FILE = "member.json"
_DIGITS = 8
_LARGEST = 64 * 1024


def names(state: Path) -> Sequence[str]:
    """The names of a home, the current one first; empty before it first writes to the store."""
    return _read(_file(state))[0]


def joined(state: Path) -> Sequence[str]:
    """The names of a home that writes; it gets a name if it has none."""
    known, where = _read(_file(state))
    # A container may have another host name at every start, so the host name does not count.
    here = f"{machine_id()}:{state}"
    if known and where == here:
        return known
    made = (secrets.token_hex(_DIGITS), *known)
    with storage_errors(f"write to {state}"):
        make_private_dir(state / _FOLDER)
        replace(_file(state), json.dumps({"names": made, "where": here}).encode("ascii"))
    return made


def _file(state: Path) -> Path:
    return state / _FOLDER / _FILE


def _read(path: Path) -> tuple[tuple[str, ...], str]:
    try:
        value: Any = json.loads(read_file(path, _LARGEST))
        return tuple(map(str, value["names"])), str(value["where"])
    except FileNotFoundError:
        return (), ""
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        # Under a new name, this home would take its own files for another home's.
        raise StorageError(
            f"{path} cannot be read: {type(error).__name__}.",
            hint="It identifies this home among those that share a store. Restore it from a "
            "backup, or remove it: files that operations moved to the trash then stay there.",
        ) from None
