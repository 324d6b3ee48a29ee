"""The hooks that Codex trusts, in its config.toml, keyed by their position in `hooks.json`. Codex
silently ignores hooks that it does not trust.

Only our own lines change: everything else stays byte for byte, comments included.
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
    """Return the text of config.toml for when an event's entries change from `was` to `now`. Our
    hooks become trusted; other hooks keep the trust they had. `start` is the prefix of the hooks'
    names. `known` are hashes of our hooks that may be left over from earlier."""
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
    """Return why Codex would ignore one of our hooks for an event, given the `text` of its
    config.toml; "" if it would run them all."""
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
    """The hashes of our hooks, by name."""
    return {
        f"{start}:{place}": trust_hash(event, _alone(entry, handler))
        for place, entry, handler in _placed(entries)
        if is_our_handler(handler)
    }


def _moves(start: str, was: Sequence[Json], now: Sequence[Json]) -> dict[str, str | None]:
    """Map old hook names to new ones: ours go (None), and the others move up."""
    found: dict[str, str | None] = {
        f"{start}:{place}": None for place, _, handler in _placed(was) if is_our_handler(handler)
    }
    for old, new in zip(_of_others(was), _of_others(now), strict=False):
        if old != new:
            found[f"{start}:{old}"] = f"{start}:{new}"
    return found


def trust_hash(event: str, entry: Json) -> str:
    """The hash that Codex compares: of the entry with its defaults, as compact JSON with sorted
    keys."""
    full: list[Json] = [
        {"async": False, **each} for each in handlers(entry) if isinstance(each, dict)
    ]
    rest = entry if isinstance(entry, dict) else {}
    said: dict[str, Json] = {**rest, "event_name": event, "hooks": full}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _placed(entries: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Yield the position of each handler (entry number and number in the entry), its entry and the
    handler."""
    for number, entry in enumerate(entries):
        for inner, handler in enumerate(handlers(entry)):
            yield f"{number}:{inner}", entry, handler


def _of_others(entries: Sequence[Json]) -> Sequence[str]:
    return [place for place, _, handler in _placed(entries) if not is_our_handler(handler)]


def _alone(entry: Json, handler: Json) -> Json:
    return {**entry, "hooks": [handler]} if isinstance(entry, dict) else entry


def _trusted(text: str) -> Mapping[str, str]:
    """The trusted hash of each hook, by name; empty if the file cannot be read."""
    return {
        key: str(each["trusted_hash"])
        for key, each in _state(text).items()
        if "trusted_hash" in each
    }


def _switched_off(text: str) -> frozenset[str]:
    """The names of hooks that the user switched off in Codex."""
    return frozenset(key for key, each in _state(text).items() if each.get("enabled") is False)


def _state(text: str) -> Mapping[str, Mapping[str, object]]:
    try:
        state = tomllib.loads(text)["hooks"]["state"]
        return {key: each for key, each in state.items() if isinstance(each, dict)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _moved(text: str, moves: Mapping[str, str | None]) -> str:
    """Rename the tables in `moves`, and remove those that map to None. Comments after a removed
    table stay."""
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
    except ValueError:  # an escape that JSON does not have; we never write one
        return None
    return str(found)
