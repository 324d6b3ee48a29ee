"""What a running session has used so far, and how its last tools ended, as its agent wrote it down.

A hook asks before every tool, so nothing is read twice: each transcript is read on from where the
last look stopped, as long as it still is the file that was read. What a look must know of the one
before is its `Marks`, which the caller keeps.

What was used stays used: if a transcript is cut, written anew or removed, what it said before is
kept, and what comes after is added.

    reading, marks = read_meter("claude-code", [transcript], marks)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.homes.blocks import tokens_in
from holdfast.homes.records import MOST_LINE_BYTES, Record, moment, names_in, parsed
from holdfast.homes.same_file import check_of
from holdfast.model.loop import DayModels, Metered
from holdfast.model.session import Json, Tokens
from holdfast.model.usage import Usage
from holdfast.policy.loop_guard import largest
from holdfast.stores.files import open_file
from holdfast.value import dataclass

#: What a look knows of those before, as JSON: by the path of each file.
Marks: TypeAlias = Mapping[str, Any]

_EXIT = re.compile(r"(?:Process exited with code|Exit code:?|\"exit_code\":) ?(-?\d+)")
#: The fields with a number of tokens, of all agents.
_COUNTED = re.compile(r"_tokens$|^(input|output|thoughts|cached)$")
#: So many calls of tools are remembered, to count none of them twice.
_MOST_CALLS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a session used, and how many of its last tools failed in a row. `missing` are files that
    could not be read, `unclear` answers whose numbers are none: then it used at least as much."""

    metered: Metered
    errors: int = 0
    missing: tuple[str, ...] = ()
    unclear: int = 0


def read_meter(
    agent: str, transcripts: Sequence[Path], marks: Marks, *, session: str = ""
) -> tuple[Reading, Marks]:
    """Read on. `transcripts` are the files of the session, and of its subagents where the agent
    keeps them elsewhere; those that it keeps beside are found. OpenCode has one database for all
    its sessions, and `session` says which."""
    if agent == "opencode":
        return _from_database(transcripts, session, marks)
    form = _FORMS[agent]
    missing: list[str] = []
    tallies = {name: _Tally(said) for name, said in marks.items()}  # those of removed files too
    errors = 0
    for path in _all_of(form, transcripts, missing):
        try:
            tally = tallies[str(path)] = _read_on(path, form, marks.get(str(path)))
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            if path in transcripts or not isinstance(error, FileNotFoundError):
                missing.append(str(path))
            continue
        if path in transcripts:
            errors = tally.errors
    by_day: dict[tuple[str, str], Usage] = {}
    for tally in tallies.values():
        for key, usage in (*tally.used.items(), *tally.kept.items()):
            by_day[key] = by_day.get(key, Usage()).plus(usage)
    reading = Reading(
        metered=Metered(by_day=by_day),
        errors=errors,
        missing=tuple(missing),
        unclear=sum(tally.unclear for tally in tallies.values()),
    )
    return reading, {name: tally.to_json() for name, tally in tallies.items()}


class _Tally:
    """What one file says so far. `carry` is what its agent's reader must know of what came
    before. `kept` is what it said once, and what is not in it any more."""

    def __init__(self, said: Any = None) -> None:
        said = said if isinstance(said, dict) else {}
        self.offset: int = said.get("offset", 0)
        self.check: str = said.get("check", "")
        self.errors: int = said.get("errors", 0)
        self.unclear: int = said.get("unclear", 0)
        self.carry: dict[str, Any] = said.get("carry", {})
        self.used = _from_rows(said.get("used", ()))
        self.kept = _from_rows(said.get("kept", ()))

    def keep(self, before: _Tally) -> None:
        """Do not forget what was there before the file was written anew."""
        for key in {**before.used, **before.kept}:
            said = before.used.get(key, Usage()).plus(before.kept.get(key, Usage()))
            self.kept[key] = _less(said, self.used.get(key, Usage()))

    def add(self, at: object, model: object, usage: Usage, *, minus: bool = False) -> None:
        key = (_day(at), str(model or ""))
        self.used[key] = (_less if minus else Usage.plus)(self.used.get(key, Usage()), usage)

    def replace(self, name: str, at: object, model: object, usage: Usage) -> None:
        """What an answer used, in place of what was said of the same answer before."""
        before = self.carry.get(name)
        if before is not None:
            said = _usage(before[2:])
            self.add(before[0], before[1], said, minus=True)
            at, usage = before[0] if _day(before[0]) else at, largest(said, usage)
        self.add(at, model, usage)
        self.carry[name] = [at, model, *_counts(usage)]

    def ended(self, *, failed: bool) -> None:
        self.errors = self.errors + 1 if failed else 0

    def to_json(self) -> dict[str, Json]:
        return {
            "offset": self.offset,
            "check": self.check,
            "errors": self.errors,
            "unclear": self.unclear,
            "carry": self.carry,
            "used": _rows(self.used),
            "kept": _rows(self.kept),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How one agent writes. Only lines that hold one of `having` are parsed. `beside` finds the
    transcripts of subagents."""

    having: tuple[bytes, ...]
    step: Callable[[Record, _Tally], None]
    beside: Callable[[Path], Sequence[Path]] = lambda _: ()


def _all_of(form: _Form, transcripts: Sequence[Path], missing: list[str]) -> list[Path]:
    found = list(transcripts)
    for path in transcripts:
        try:
            found += form.beside(path)
        except (OSError, ValueError):
            missing.append(f"the subagents of {path}")
    return found


def _read_on(path: Path, form: _Form, said: Any) -> _Tally:
    tally = before = _Tally(said)
    if tally.offset and check_of(path, tally.offset) != tally.check:
        tally = _Tally()  # another file, or written anew
    for line in _new_lines(path, tally):
        if any(each in line for each in form.having):
            for record in parsed(line):
                form.step(record, tally)
    if tally is not before:
        tally.keep(before)
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
        usage = _unpriced(
            tokens_in(
                _numbers(message["usage"], tally),
                input=("input_tokens", "cache_creation_input_tokens"),
                output=("output_tokens",),
                cached=("cache_read_input_tokens",),
            )
        )
        name = message.get("id")
        if not name or tally.carry.get("id") != name:
            tally.carry.clear()  # without an id, each is an answer of its own
        tally.carry["id"] = name
        tally.replace("last", said.get("timestamp"), message.get("model"), usage)
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
        _numbers(usage, tally),
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
            _numbers(each.get("tokens"), tally),
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

_KNOWN = "SELECT 1 FROM session WHERE id = ?1"
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


def _from_database(paths: Sequence[Path], session: str, marks: Marks) -> tuple[Reading, Marks]:
    """OpenCode keeps everything in a database, and says what an answer cost. A database without
    the session is not the one that OpenCode writes to."""
    # Only OpenCode needs the database library.
    from holdfast.stores.sqlite.foreign import reading  # noqa: PLC0415

    path = next(iter(paths), None)
    before = _Spent(marks)
    if path is None or not path.exists():
        return Reading(metered=before.metered, missing=tuple(map(str, paths))), marks
    with reading(path) as db:
        known = db.execute(_KNOWN, (session,)).fetchone()
        found = db.execute(_USED, (session,)).fetchall()
        ends = db.execute(_LAST_TOOLS, (session,)).fetchall()
    if known is None:
        return Reading(metered=before.metered, missing=(str(path),)), marks
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
    now = before.then(by_day)
    return Reading(metered=now.metered, errors=errors), now.to_json()


class _Spent:
    """What a database says, and what it said once and does not say any more: a session that was
    turned back has been paid for."""

    def __init__(self, said: Marks) -> None:
        self.used = _priced_from_rows(said.get("used", ()))
        self.kept = _priced_from_rows(said.get("kept", ()))

    def then(self, used: DayModels) -> _Spent:
        later = _Spent({})
        later.used = dict(used)
        for key in {**self.used, **self.kept}:
            fell = _less(self.used.get(key, Usage()), used.get(key, Usage()))
            later.kept[key] = self.kept.get(key, Usage()).plus(fell)
        return later

    @property
    def metered(self) -> Metered:
        keys = {**self.used, **self.kept}
        both = (self.used, self.kept)
        zero = Usage()
        return Metered(
            by_day={key: both[0].get(key, zero).plus(both[1].get(key, zero)) for key in keys}
        )

    def to_json(self) -> dict[str, Json]:
        return {"used": _priced_rows(self.used), "kept": _priced_rows(self.kept)}


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


def _rows(used: DayModels) -> list[Json]:
    return [[day, model, *_counts(each)] for (day, model), each in used.items()]


def _from_rows(rows: Sequence[Any]) -> dict[tuple[str, str], Usage]:
    return {(day, model): _usage(counts) for day, model, *counts in rows}


def _priced_rows(used: DayModels) -> list[Json]:
    return [
        [day, model, each.cost, *_counts(each), *_counts(_unpriced(each.unpriced))]
        for (day, model), each in used.items()
    ]


def _priced_from_rows(rows: Sequence[Any]) -> dict[tuple[str, str], Usage]:
    return {
        (day, model): Usage(
            cost=cost, tokens=_usage(counts[:3]).tokens, unpriced=_usage(counts[3:]).tokens
        )
        for day, model, cost, *counts in rows
    }


def _less(usage: Usage, other: Usage) -> Usage:
    """What is left of it, which is never less than nothing."""
    return Usage(
        tokens=_fewer(usage.tokens, other.tokens),
        cost=max(0.0, usage.cost - other.cost),
        unpriced=_fewer(usage.unpriced, other.unpriced),
    )


def _fewer(tokens: Tokens, other: Tokens) -> Tokens:
    return Tokens(
        input=max(0, tokens.input - other.input),
        output=max(0, tokens.output - other.output),
        cached=max(0, tokens.cached - other.cached),
    )


def _numbers(usage: object, tally: _Tally) -> object:
    """The counts in what an agent wrote as numbers, whatever it wrote them as. One that is no count
    is noted: then nobody knows what was used."""
    if usage is None or not isinstance(usage, dict):
        tally.unclear += usage is not None
        return None
    found: dict[str, Any] = {}
    for name, value in usage.items():
        if not _COUNTED.search(str(name)):
            continue
        try:
            found[name] = int(float(value)) if isinstance(value, str | float) else value
        except (ValueError, OverflowError):
            found[name] = None
        said = found[name]
        if value is not None and (type(said) is not int or said < 0):
            tally.unclear += 1
    return found


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
