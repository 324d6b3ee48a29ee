"""Whether a checkpoint store has the layout that we know. One that has not is read, never changed.

Hermes writes no version into its store. So what is there has to say it: names that neither git nor
the Hermes of today puts there, references in another form, a format of git that is newer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import SchemaError
from holdfast.homes.hermes.repository.layout import REFS, HermesLayout
from holdfast.homes.hermes.repository.records import PROJECT
from holdfast.homes.hermes.repository.references import PASSING, named
from holdfast.stores.files import read_file, storage_errors

#: What git and Hermes put into the store.
_NAMES = frozenset(
    {
        "branches",
        "COMMIT_EDITMSG",
        "config",
        "config.worktree",
        "description",
        "FETCH_HEAD",
        "gc.log",
        "gc.pid",
        "HEAD",
        "HERMES_WORKDIR",
        "hooks",
        "index",
        "indexes",
        "info",
        "lfs",
        "logs",
        "MERGE_HEAD",
        "modules",
        "objects",
        "ORIG_HEAD",
        "packed-refs",
        "projects",
        "refs",
        "shallow",
        "worktrees",
    }
)
_OURS = "holdfast-"
_VERSION_KEYS = ("version", "format", "schema", "layout")
_EXTENSIONS = re.compile(r"^\s*\[extensions\b", re.IGNORECASE | re.MULTILINE)
_GIT_FORMAT = re.compile(r"^\s*repositoryformatversion\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)


def doubt(layout: HermesLayout) -> str | None:
    """Why it is not known how to change this store; None when it is known."""
    with storage_errors(f"look at {layout.store}"):
        return next(_doubts(layout), None)


def check_known(layout: HermesLayout) -> None:
    """Raise `SchemaError` for a store that may only be read."""
    why = doubt(layout)
    if why is not None:
        raise SchemaError(
            f"{layout.store} is not changed: {why}.",
            hint="Everything that only reads works, and so does `holdfast checkpoints import`."
            " Upgrade Holdfast to change it.",
        )


def _doubts(layout: HermesLayout) -> Iterator[str]:
    for path in sorted(layout.store.iterdir()):
        if not (path.name in _NAMES or path.name.startswith(_OURS) or PASSING.fullmatch(path.name)):
            yield f"it holds {path.name!r}, which no Hermes that we know puts there"
    for path in sorted(layout.folder.glob("store?*")):
        yield f"beside it lies {path.name!r}, which no Hermes that we know puts there"
    yield from _in_git(layout.store / "config")
    for name in named(layout.store):
        if not PROJECT.fullmatch(name):
            yield f"its reference {REFS}{name} has a form that we do not know"
    yield from _in_records(layout.records)


def _in_git(config: Path) -> Iterator[str]:
    try:
        text = read_file(config).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    if any(version != "0" for version in _GIT_FORMAT.findall(text)) or _EXTENSIONS.search(text):
        yield "git calls its format a newer one"


def _in_records(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            data = json.loads(read_file(path))
        except (OSError, ValueError, RecursionError):
            continue  # damage, which `verify` names
        if isinstance(data, dict) and not data.keys().isdisjoint(_VERSION_KEYS):
            yield f"{path.name} says that it is of another format"
