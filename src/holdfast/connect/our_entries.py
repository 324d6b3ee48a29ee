"""Which entries in the hooks of an agent are Holdfast's: those that start its client."""

from __future__ import annotations

import re

from holdfast.model.session import Json

_OURS = re.compile(r"holdfast[/\\]hooks[/\\]client\.p[ly]")


def handlers(entry: Json) -> list[Json]:
    """What an entry starts; nothing when it is not one."""
    found = entry.get("hooks") if isinstance(entry, dict) else None
    return found if isinstance(found, list) else []


def is_our_handler(handler: Json) -> bool:
    return isinstance(handler, dict) and bool(_OURS.search(str(handler.get("command"))))


def is_ours(entry: Json) -> bool:
    """Whether everything that an entry starts is ours."""
    found = handlers(entry)
    return bool(found) and all(map(is_our_handler, found))


def our_command(entry: Json) -> str | None:
    """What an entry starts of ours, also when it starts something else too."""
    for each in handlers(entry):
        if isinstance(each, dict) and is_our_handler(each):
            return str(each.get("command"))
    return None
