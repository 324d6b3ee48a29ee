"""The hooks that Codex trusts, in its config.toml: each by its place in `hooks.json`. Codex passes
over hooks that it does not trust, without a word.

Only lines of ours change: what others wrote stays byte for byte, comments included.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from holdfast.connect.our_entries import handlers, is_our_handler
from holdfast.model.session import Json

_HEAD = re.compile(
    r"""[ \t]*\[[ \t]*hooks[ \t]*\.[ \t]*state[ \t]*\.[ \t]*("(?:[^"\\]|\\.)*"|'[^']*')[ \t]*\]"""
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def retrusted(
    text: str,
    start: str,
    event: str,
    was: Sequence[Json],
    now: Sequence[Json],
    known: frozenset[str],
) -> str:
    """The text when the entries `was` of an event become `now`: ours are trusted, those of others
    as much as they were. `start` begins the name of each hook. `known` are hashes of ours that may
    be left from earlier."""
    trusted, off = _trusted(text), _switched_off(text)
    wanted = _wanted(start, event, now)
    right = {key for key, said in wanted.items() if trusted.get(key) == said and key not in off}
    moves = _moves(start, was, now)
    theirs = {f"{start}:{place}" for place in _of_others(was)}
    for key, said in {**dict.fromkeys(off, ""), **trusted}.items():
        left = key.startswith(f"{start}:") and said in known
        if key not in theirs and (left or key in wanted):
            moves[key] = None
    text = _moved(text, {key: to for key, to in moves.items() if key not in right})
    line = "\r\n" if "\r\n" in text else "\n"
    for key, said in wanted.items():
        if key not in right:
            end = "" if not text or text.endswith("\n") else line
            table = f"[hooks.state.{json.dumps(key, ensure_ascii=False)}]"
            text = f'{text}{end}{table}{line}trusted_hash = "{said}"{line}'
    return text


def passed_over(text: str, start: str, event: str, now: Sequence[Json]) -> str:
    """Why Codex would pass over a hook of ours among the entries of an event, as `text` of its
    config.toml says; "" when it would start them all."""
    trusted, off = _trusted(text), _switched_off(text)
    for key, said in _wanted(start, event, now).items():
        if key not in trusted:
            return "Codex does not trust it"
        if trusted[key] != said:
            return "Codex trusts another command in its place"
        if key in off:
            return "it is switched off"
    return ""


def _wanted(start: str, event: str, entries: Sequence[Json]) -> dict[str, str]:
    """The hash of each hook of ours, by its name."""
    return {
        f"{start}:{place}": trust_hash(event, _alone(entry, handler))
        for place, entry, handler in _placed(entries)
        if is_our_handler(handler)
    }


def _moves(start: str, was: Sequence[Json], now: Sequence[Json]) -> dict[str, str | None]:
    """What becomes of the name of each hook: ours go, and others take their places."""
    found: dict[str, str | None] = {
        f"{start}:{place}": None for place, _, handler in _placed(was) if is_our_handler(handler)
    }
    for old, new in zip(_of_others(was), _of_others(now), strict=False):
        if old != new:
            found[f"{start}:{old}"] = f"{start}:{new}"
    return found


def trust_hash(event: str, entry: Json) -> str:
    """What Codex trusts: the entry with its defaults, keys in order, as compact JSON."""
    full: list[Json] = [
        {"async": False, **each} for each in handlers(entry) if isinstance(each, dict)
    ]
    rest = entry if isinstance(entry, dict) else {}
    said: dict[str, Json] = {**rest, "event_name": event, "hooks": full}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _placed(entries: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Each handler with its place (the number of its entry, and its own there) and its entry."""
    for number, entry in enumerate(entries):
        for inner, handler in enumerate(handlers(entry)):
            yield f"{number}:{inner}", entry, handler


def _of_others(entries: Sequence[Json]) -> Sequence[str]:
    return [place for place, _, handler in _placed(entries) if not is_our_handler(handler)]


def _alone(entry: Json, handler: Json) -> Json:
    return {**entry, "hooks": [handler]} if isinstance(entry, dict) else entry


def _trusted(text: str) -> Mapping[str, str]:
    """The hash by the name of each hook; nothing when the file cannot be read."""
    return {
        key: str(each["trusted_hash"])
        for key, each in _state(text).items()
        if "trusted_hash" in each
    }


def _switched_off(text: str) -> frozenset[str]:
    """The names of hooks that somebody switched off in Codex."""
    return frozenset(key for key, each in _state(text).items() if each.get("enabled") is False)


def _state(text: str) -> Mapping[str, Mapping[str, object]]:
    try:
        state = tomllib.loads(text)["hooks"]["state"]
        return {key: each for key, each in state.items() if isinstance(each, dict)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _moved(text: str, moves: Mapping[str, str | None]) -> str:
    """With the tables of these names under their new ones; those that have none leave, and nothing
    else: a comment behind such a table stays."""
    lines: list[str] = []
    leaving = False
    for line in _LINE.findall(text):
        said = line.strip()
        if said.startswith("["):
            head = _HEAD.match(line)
            key = None if head is None else _named(head[1])
            to = moves.get(key, key) if key is not None else key
            leaving = key is not None and to is None
            if head is not None and to != key and to is not None:
                start, end = head.span(1)
                lines.append(line[:start] + json.dumps(to, ensure_ascii=False) + line[end:])
                continue
        own = leaving and bool(said) and not said.startswith("#")
        if not own:
            lines.append(line)
    return "".join(lines)


def _named(quoted: str) -> str | None:
    if quoted.startswith("'"):
        return quoted[1:-1]
    try:
        found = json.loads(quoted)
    except ValueError:  # an escape that JSON does not know; we write none
        return None
    return str(found)
