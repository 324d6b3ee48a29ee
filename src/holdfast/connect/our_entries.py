"""Recognise Holdfast's entries among an agent's hooks: those that start its client."""

from __future__ import annotations

import re

from holdfast.model.session import Json

_OURS = re.compile(r"holdfast[/\\]hooks[/\\]client\.p[ly]")


def handlers(entry: Json) -> list[Json]:
    """The handlers of an entry; empty if it is not a valid entry."""
    found = entry.get("hooks") if isinstance(entry, dict) else None
    return found if isinstance(found, list) else []


def is_our_handler(handler: Json) -> bool:
    return isinstance(handler, dict) and bool(_OURS.search(str(handler.get("command"))))


def is_ours(entry: Json) -> bool:
    """True if all handlers of an entry are ours."""
    found = handlers(entry)
    return bool(found) and all(map(is_our_handler, found))


def our_command(entry: Json) -> str | None:
    """The command of our handler in an entry, which may have other handlers as well."""
    for each in handlers(entry):
        if isinstance(each, dict) and is_our_handler(each):
            return str(each.get("command"))
    return None
