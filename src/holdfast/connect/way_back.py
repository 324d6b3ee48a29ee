"""Turn settings with our entries back into exactly what they were before the first of them.

Connecting twice changes a file twice, and the content in between has our entries as well. So
changes are reverted until the entries are gone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

from holdfast.connect import json_edit
from holdfast.errors import UsageError
from holdfast.model.rewrite import Rewrite, identity, rewrite
from holdfast.model.session import Json


def way_back(plain: Rewrite, done: Sequence[Rewrite], old: bytes | None) -> Rewrite | None:
    """Revert our own changes `done`, newest first, until the content means the same as after
    `plain`, which takes our entries out of the current content `old`. Return None if something
    else changed the file in between."""
    wanted = _meaning(plain.path, plain.applied(old or b"") if plain.after else None)
    content, folders = old, plain.folders
    for each in reversed(done):
        if each.path != plain.path or not each.after or each.after != identity(content):
            continue
        content = each.reverted(content or b"") if each.before else None
        if identity(content) != each.before:
            return None
        folders = tuple(dict.fromkeys((*each.folders, *folders)))
        if _meaning(plain.path, content) == wanted:
            return rewrite(plain.path, old, content, folders=folders)
        if content is None:
            return None
    return None


def made_by_us(path: str, events: Sequence[str], done: Sequence[Rewrite]) -> set[tuple[str, ...]]:
    """The containers in the settings that we created. Others belong to the user, even if they are
    empty. `done` are our changes, oldest first."""
    made: set[tuple[str, ...]] = set()
    for each in done:
        if each.path == path:
            came, went = _containers(each.new, events), _containers(each.old, events)
            made = (made | (came - went)) - (went - came)
    return made


def _containers(part: bytes, events: Sequence[str]) -> set[tuple[str, ...]]:
    """The containers that begin in a part of the settings. An entry's list is called `hooks` too,
    so only an object counts as the outer container."""
    text = part.decode(errors="replace")
    found: set[tuple[str, ...]] = {
        ("hooks", each) for each in events if re.search(rf'"{each}"\s*:\s*\[', text)
    }
    return found | {("hooks",)} if re.search(r'"hooks"\s*:\s*\{', text) else found


def _meaning(path: str, content: bytes | None) -> Json:
    """The parsed content of a file, ignoring empty lists of hooks."""
    text = "" if content is None else content.decode()
    try:
        if path.endswith(".toml"):
            return tomllib.loads(text)
        if not path.endswith(".json") or not text.strip():
            return text.strip() or {}
        said = json_edit.value_of(text, json_edit.parse(text))
    except (UsageError, ValueError):
        return text
    if isinstance(said, dict) and isinstance(hooks := said.get("hooks"), dict):
        filled = {key: each for key, each in hooks.items() if each != []}
        rest = {key: each for key, each in said.items() if key != "hooks"}
        return {**rest, "hooks": filled} if filled else rest
    return said
