"""What a running session has used so far, and how its last tools ended, as its agent wrote it down.

A hook asks before every tool, so nothing is read twice: each transcript is read on from where the
last look stopped, as long as it still is the file that was read. What a look must know of the one
before is its `Marks`, which the caller keeps.

    reading, marks = read_meter("claude-code", [transcript], marks)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.homes.appended import check_of
from holdfast.homes.blocks import tokens_in
from holdfast.homes.records import MOST_LINE_BYTES, Record, moment, names_in, parsed
from holdfast.model.loop import Metered
from holdfast.model.session import Json, Tokens
from holdfast.model.usage import Usage
from holdfast.stores.files import open_file
from holdfast.value import dataclass

#: What a look knows of those before, as JSON: by the path of each file.
Marks: TypeAlias = Mapping[str, Any]

_EXIT = re.compile(r"(?:Process exited with code|Exit code:?|\"exit_code\":) ?(-?\d+)")
#: So many calls of tools are remembered, to count none of them twice.
_MOST_CALLS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a session used, and how many of its last tools failed in a row. `missing` are files that
    could not be read: then it used at least as much."""

    metered: Metered
    errors: int = 0
    missing: tuple[str, ...] = ()


def read_meter(
    agent: str, transcripts: Sequence[Path], marks: Marks, *, session: str = ""
) -> tuple[Reading, Marks]:
    """Read on. `transcripts` are the files of the session, and of its subagents where the agent
    keeps them elsewhere; those that it keeps beside are found. OpenCode has one database for all
    its sessions, and `session` says which."""
    if agent == "opencode":
        return _from_database(transcripts, session), {}
    form = _FORMS[agent]
    kept: dict[str, Any] = {}
    missing: list[str] = []
    by_day: dict[tuple[str, str], Usage] = {}
    errors = 0
    for path in _all_of(form, transcripts):
        try:
            tally = _read_on(path, form, marks.get(str(path)))
        except OSError:
            if path in transcripts:
                missing.append(str(path))
            continue
        kept[str(path)] = tally.to_json()
        for key, usage in tally.used.items():
            by_day[key] = by_day.get(key, Usage()).plus(usage)
        if path in transcripts:
            errors = tally.errors
    reading = Reading(metered=Metered(by_day=by_day), errors=errors, missing=tuple(missing))
    return reading, kept


class _Tally:
    """What one file says so far. `carry` is what its agent's reader must know of what came
    before."""

    def __init__(self, said: Any = None) -> None:
        said = said if isinstance(said, dict) else {}
        self.offset: int = said.get("offset", 0)
        self.check: str = said.get("check", "")
        self.errors: int = said.get("errors", 0)
        self.carry: dict[str, Any] = said.get("carry", {})
        self.used: dict[tuple[str, str], Usage] = {
            (day, model): _usage(counts) for day, model, *counts in said.get("used", ())
        }

    def add(self, at: object, model: object, usage: Usage, *, minus: bool = False) -> None:
        key = (_day(at), str(model or ""))
        self.used[key] = (_less if minus else Usage.plus)(self.used.get(key, Usage()), usage)

    def replace(self, name: str, at: object, model: object, usage: Usage) -> None:
        """What an answer used, in place of what was said of the same answer before."""
        before = self.carry.get(name)
        if before is not None:
            self.add(before[0], before[1], _usage(before[2:]), minus=True)
        self.add(at, model, usage)
        self.carry[name] = [at, model, *_counts(usage)]

    def ended(self, *, failed: bool) -> None:
        self.errors = self.errors + 1 if failed else 0

    def to_json(self) -> dict[str, Json]:
        return {
            "offset": self.offset,
            "check": self.check,
            "errors": self.errors,
            "carry": self.carry,
            "used": [[day, model, *_counts(each)] for (day, model), each in self.used.items()],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How one agent writes. Only lines that hold one of `having` are parsed. `beside` finds the
    transcripts of subagents."""

    having: tuple[bytes, ...]
    step: Callable[[Record, _Tally], None]
    beside: Callable[[Path], Sequence[Path]] = lambda _: ()


def _all_of(form: _Form, transcripts: Sequence[Path]) -> list[Path]:
    return [*transcripts, *(each for path in transcripts for each in form.beside(path))]


def _read_on(path: Path, form: _Form, said: Any) -> _Tally:
    tally = _Tally(said)
    if tally.offset and check_of(path, tally.offset) != tally.check:
        tally = _Tally()  # another file, or written anew
    for line in _new_lines(path, tally):
        if any(each in line for each in form.having):
            for record in parsed(line):
                form.step(record, tally)
    tally.check = check_of(path, tally.offset)
    return tally


def _new_lines(path: Path, tally: _Tally) -> Iterator[bytes]:
    """Whole lines only: the last one may be half written."""
    with open_file(path) as file:
        file.seek(tally.offset)
        while line := file.readline(MOST_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) < MOST_LINE_BYTES:
                return
            tally.offset += len(line)
            yield line


# --- What each agent writes -----------------------------------------------------------------------


def _claude_code(said: Record, tally: _Tally) -> None:
    """An answer is written block by block, each with the usage of the whole."""
    message = said.get("message")
    if not isinstance(message, dict):
        return
    if isinstance(message.get("usage"), dict):
        tokens = tokens_in(
            message["usage"],
            input=("input_tokens", "cache_creation_input_tokens"),
            output=("output_tokens",),
            cached=("cache_read_input_tokens",),
        )
        if tally.carry.get("id") != message.get("id"):
            tally.carry.clear()
        tally.carry["id"] = message.get("id")
        tally.replace("last", said.get("timestamp"), message.get("model"), _unpriced(tokens))
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            tally.ended(failed=block.get("is_error") is True)


def _codex(said: Record, tally: _Tally) -> None:
    payload = said.get("payload")
    if not isinstance(payload, dict):
        return
    kind = said.get("type") if said.get("type") != "event_msg" else payload.get("type")
    if kind == "turn_context":
        tally.carry["model"] = payload.get("model")
    elif kind == "token_usage_record":
        tally.carry["recorded"] = True
        _codex_usage(said, payload.get("usage"), tally)
    elif kind == "token_count" and not tally.carry.get("recorded"):
        info = payload.get("info")
        _codex_usage(said, info.get("last_token_usage") if isinstance(info, dict) else None, tally)
    elif kind == "response_item" and str(payload.get("type")).endswith("_output"):
        found = _EXIT.search(str(payload.get("output"))[:2_000])
        if found is not None:
            tally.ended(failed=found[1] != "0")


def _codex_usage(said: Record, usage: object, tally: _Tally) -> None:
    tokens = tokens_in(
        usage,
        input=("input_tokens",),
        output=("output_tokens",),
        cached=("cached_input_tokens",),
        cached_is_input=True,
    )
    if tokens is not None:
        tally.add(said.get("timestamp"), tally.carry.get("model"), _unpriced(tokens))


def _gemini(said: Record, tally: _Tally) -> None:
    """A message is written again when it changes, and a resumed chat begins with those so far. What
    was taken back was paid for."""
    patch = said.get("$set", said)
    listed = patch.get("messages") if isinstance(patch, dict) else None
    for each in listed if isinstance(listed, list) else [said]:
        if not isinstance(each, dict) or each.get("type") != "gemini" or "id" not in each:
            continue
        tokens = tokens_in(
            each.get("tokens"),
            input=("input",),
            output=("output", "thoughts"),
            cached=("cached",),
            cached_is_input=True,
        )
        if tokens is not None:
            tally.replace(
                f"m:{each['id']}", each.get("timestamp"), each.get("model"), _unpriced(tokens)
            )
        calls = each.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            _gemini_call(call, tally)


def _gemini_call(call: object, tally: _Tally) -> None:
    if not isinstance(call, dict) or call.get("status") not in ("success", "error"):
        return
    counted: list[Any] = tally.carry.setdefault("calls", [])
    if call.get("id") in counted:
        return
    counted.append(call.get("id"))
    del counted[:-_MOST_CALLS]
    exits = _EXIT.search(str(call.get("resultDisplay") or call.get("result"))[:2_000])
    failed = call["status"] == "error" or (exits is not None and exits[1] != "0")
    tally.ended(failed=failed)


def _subagents_of_claude(path: Path) -> Sequence[Path]:
    folder = path.with_suffix("") / "subagents"
    return [folder / each for each in sorted(names_in(folder)) if each.endswith(".jsonl")]


def _subagents_of_gemini(path: Path) -> Sequence[Path]:
    """In a folder that is called by the whole id; the name of the chat ends in its beginning."""
    start = path.stem.rpartition("-")[2]
    folders = [path.parent / each for each in names_in(path.parent) if each.startswith(start)]
    return [
        folder / each
        for folder in folders
        if folder.is_dir()
        for each in sorted(names_in(folder))
        if each.endswith(".jsonl")
    ]


_FORMS = {
    "claude-code": _Form(
        having=(b'"usage"', b'"tool_result"'), step=_claude_code, beside=_subagents_of_claude
    ),
    "codex": _Form(
        having=(b'"turn_context"', b'"token_usage_record"', b'"token_count"', b'_output"'),
        step=_codex,
    ),
    "gemini": _Form(having=(b'"gemini"',), step=_gemini, beside=_subagents_of_gemini),
}
#: The agents whose sessions can be metered while they run.
METERED = (*_FORMS, "opencode")

#: The session and its subagents, of any depth.
_USED = (
    "WITH RECURSIVE mine(id) AS (SELECT ?1 UNION"
    " SELECT s.id FROM session AS s JOIN mine ON s.parent_id = mine.id)"
    " SELECT date(m.time_created / 1000, 'unixepoch'), json_extract(m.data, '$.modelID'),"
    " total(json_extract(m.data, '$.tokens.input')),"
    " total(json_extract(m.data, '$.tokens.cache.write')),"
    " total(json_extract(m.data, '$.tokens.output')),"
    " total(json_extract(m.data, '$.tokens.reasoning')),"
    " total(json_extract(m.data, '$.tokens.cache.read')),"
    " total(json_extract(m.data, '$.cost'))"
    " FROM message AS m JOIN mine ON m.session_id = mine.id"
    " WHERE json_extract(m.data, '$.role') = 'assistant' GROUP BY 1, 2"
)
_LAST_TOOLS = (
    "SELECT json_extract(data, '$.state.status'), json_extract(data, '$.state.metadata.exit')"
    " FROM part WHERE session_id = ?1 AND json_extract(data, '$.type') = 'tool'"
    " ORDER BY id DESC LIMIT 20"
)


def _from_database(paths: Sequence[Path], session: str) -> Reading:
    """OpenCode keeps everything in a database, and says what an answer cost."""
    # Only OpenCode needs the database library.
    from holdfast.stores.sqlite.foreign import reading  # noqa: PLC0415

    path = next(iter(paths), None)
    if path is None or not path.exists():
        return Reading(metered=Metered(), missing=tuple(map(str, paths)))
    with reading(path) as db:
        found = db.execute(_USED, (session,)).fetchall()
        ends = db.execute(_LAST_TOOLS, (session,)).fetchall()
    by_day = {}
    for day, model, read, stored, written, thought, cached, cost in found:
        tokens = Tokens(input=int(read + stored), output=int(written + thought), cached=int(cached))
        # A provider without prices costs 0 there, which says nothing.
        unpriced = Tokens() if cost else tokens
        by_day[str(day), str(model or "")] = Usage(tokens=tokens, cost=cost, unpriced=unpriced)
    errors = 0
    for status, code in ends:
        if status in ("pending", "running"):
            continue
        if status != "error" and not code:
            break
        errors += 1
    return Reading(metered=Metered(by_day=by_day), errors=errors)


# --- Counting -------------------------------------------------------------------------------------


def _unpriced(tokens: Tokens | None) -> Usage:
    counted = tokens or Tokens()
    return Usage(tokens=counted, unpriced=counted)


def _counts(usage: Usage) -> list[Json]:
    tokens = usage.tokens
    return [tokens.input, tokens.output, tokens.cached]


def _usage(counts: Sequence[Any]) -> Usage:
    read, written, cached = counts
    return _unpriced(Tokens(input=read, output=written, cached=cached))


def _less(usage: Usage, other: Usage) -> Usage:
    tokens = Tokens(
        input=usage.tokens.input - other.tokens.input,
        output=usage.tokens.output - other.tokens.output,
        cached=usage.tokens.cached - other.tokens.cached,
    )
    return _unpriced(tokens)


def _day(at: object) -> str:
    """The UTC day of a time as the agent wrote it; "" if it is none."""
    when = moment(at)
    if when is None:
        return ""
    try:
        return datetime.fromtimestamp(when, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def transcript_paths(names: Sequence[str]) -> list[Path]:
    """The files that hooks named, each once."""
    return [path for path in map(Path, dict.fromkeys(filter(None, names))) if path.is_absolute()]
