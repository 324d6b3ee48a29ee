"""What a running session has used so far, and how its last tools ended, as its agent wrote it down.

A hook asks before every tool, so nothing is read twice: each transcript is read on from where the
last look stopped, as long as it still is the file that was read. What a look must know of the one
before is its `Marks`, which the caller keeps.

What was used stays used: if a transcript is cut, written anew or removed, what it said before is
kept, and what comes after is added.

    reading, marks = read_meter("claude-code", [transcript], marks)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.homes.blocks import tokens_in
from holdfast.homes.records import MOST_LINE_BYTES, Record, moment, names_in, parsed
from holdfast.homes.same_file import check_of, checks_of
from holdfast.model.loop import DayModels, Metered
from holdfast.model.session import Json, Tokens
from holdfast.model.usage import Usage
from holdfast.policy.loop_guard import largest, less
from holdfast.stores.files import open_file
from holdfast.value import dataclass

#: What a look knows of those before, as JSON: by the path of each file.
Marks: TypeAlias = Mapping[str, Any]

_EXIT = re.compile(r"(?:Process exited with code|Exit [Cc]ode:?|\"exit_code\":) ?(-?\d+)")
#: Where Gemini CLI says it: below what the command wrote, which may say something like it, too.
_GEMINI_SHELL = "run_shell_command"
_GEMINI_EXIT = re.compile(r"(?:^|\\n|\n)Exit Code: (-?\d+)")
#: The fields with a number of tokens, of all agents.
_COUNTED = re.compile(r"_tokens$|^(input|output|thoughts|cached)$")
#: So many calls of tools, and answers of Claude Code, are remembered, to count none of them twice.
_MOST_CALLS = 200
_MOST_ANSWERS = 50
#: What Claude Code writes by itself, when a request fails or is taken back, names this model.
_NO_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a session used, and how many of its last tools failed in a row. `missing` are files that
    could not be read, `unclear` counts answers without numbers and lines that are damaged: then it
    used at least as much."""

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
    known = dict(marks)
    paths = _each_once(_all_of(form, transcripts, missing))
    for path in paths:
        if str(path) not in known:
            _take_over(path, known)
    moved = {name for said in known.values() for name in said.get("was", ())}
    tallies = {name: _Tally(said) for name, said in known.items()}  # those of removed files too
    errors = 0
    for path in paths:
        try:
            tally = tallies[str(path)] = _read_on(path, form, known.get(str(path)))
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            gone = isinstance(error, FileNotFoundError)
            if not (gone and (str(path) in moved or path not in transcripts)):
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
        unclear=sum(tally.all_unclear for tally in tallies.values()),
    )
    return reading, {name: tally.to_json() for name, tally in tallies.items()}


def read_transcript(
    agent: str, path: Path, marks: Marks, *, until: int | None = None
) -> tuple[Mapping[str, Usage], Marks]:
    """Read on in one file alone, or only its first `until` bytes: what each model used."""
    tally = _read_on(path, _FORMS[agent], marks, until=until)
    models: dict[str, Usage] = {}
    for (_, model), usage in (*tally.used.items(), *tally.kept.items()):
        models[model] = models.get(model, Usage()).plus(usage)
    return models, tally.to_json()


class _Tally:
    """What one file says so far. `carry` is what its agent's reader must know of what came
    before. `kept` is what it said once, and what is not in it any more. What it says without a time
    counts for `day`, the one on which the file was written last. `was` are names that it had."""

    def __init__(self, said: Any = None) -> None:
        said = said if isinstance(said, dict) else {}
        self.offset: int = said.get("offset", 0)
        self.check: str = said.get("check", "")
        self.content: str = said.get("content", "")
        self.was: list[str] = said.get("was", [])
        self.day = ""
        self.errors: int = said.get("errors", 0)
        self.unclear: int = said.get("unclear", 0)
        self.carry: dict[str, Any] = said.get("carry", {})
        self.used = _from_rows(said.get("used", ()))
        self.kept = _from_rows(said.get("kept", ()))

    def keep(self, before: _Tally) -> None:
        """Do not forget what was there before the file was written anew."""
        for key in {**before.used, **before.kept}:
            said = before.used.get(key, Usage()).plus(before.kept.get(key, Usage()))
            self.kept[key] = less(said, self.used.get(key, Usage()))

    @property
    def all_unclear(self) -> int:
        return self.unclear + len(self.carry.get("unsaid", ()))

    def add(self, at: object, model: object, usage: Usage) -> None:
        self._book(_day(at) or self.day, model, usage, Usage.plus)

    def _book(
        self, day: str, model: object, usage: Usage, how: Callable[[Usage, Usage], Usage]
    ) -> None:
        key = (day, str(model or ""))
        self.used[key] = how(self.used.get(key, Usage()), usage)

    def replace(self, name: str, at: object, model: object, usage: Usage, *, most: int = 0) -> None:
        """What an answer used, in place of what was said of the same answer before. With `most`, no
        more answers than the last ones are known."""
        answers: dict[str, Any] = self.carry.setdefault("answers", {})
        before = answers.pop(name, None)
        day = _day(at) or self.day
        if before is not None:
            day, said = before[0], _usage(before[2:])
            self._book(day, before[1], said, less)
            usage = largest(said, usage)
        self._book(day, model, usage, Usage.plus)
        answers[name] = [day, model, *_counts(usage)]
        if most and len(answers) > most:
            del answers[next(iter(answers))]
        if name in self.carry.get("unsaid", ()):
            self.carry["unsaid"].remove(name)

    def unsaid(self, name: object) -> None:
        """An answer does not say what it used. Another line of it may."""
        if not isinstance(name, str) or not name:
            self.unclear += 1
            return
        waiting: list[str] = self.carry.setdefault("unsaid", [])
        if name in self.carry.get("answers", ()) or name in waiting:
            return
        if len(waiting) < _MOST_CALLS:
            waiting.append(name)
        else:
            self.unclear += 1

    def ended(self, *, failed: bool) -> None:
        self.errors = self.errors + 1 if failed else 0

    def to_json(self) -> dict[str, Json]:
        return {
            "offset": self.offset,
            "check": self.check,
            "content": self.content,
            "was": list[Json](self.was),
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


def _each_once(paths: Sequence[Path]) -> list[Path]:
    """Without further names of the same file."""
    found: dict[object, Path] = {}
    for path in paths:
        try:
            status = path.stat()
            found.setdefault((status.st_dev, status.st_ino), path)
        except (OSError, ValueError):
            found.setdefault(path, path)
    return list(found.values())


def _take_over(path: Path, known: dict[str, Any]) -> None:
    """Go on with what was read of the same file under another name: it was moved, or is a link. One
    that went to another disk has the content of one that is gone."""
    for name, said in list(known.items()):
        before = _Tally(said)
        with suppress(OSError, ValueError):
            check, content = checks_of(path, before.offset)
            moved = content and content == before.content and not os.path.lexists(name)
            if before.offset and (moved or check == before.check):
                del known[name]
                known[str(path)] = {**said, "was": [*before.was, name]}
                return


def _read_on(path: Path, form: _Form, said: Any, *, until: int | None = None) -> _Tally:
    tally = before = _Tally(said)
    if tally.offset and check_of(path, tally.offset) != tally.check:
        tally = _Tally({"was": tally.was})  # another file, or written anew
    for line in _new_lines(path, tally, until):
        if any(each in line for each in form.having):
            found = False
            for record in parsed(line.strip(b"\0")):  # a crash leaves zeros where a block was lost
                found = True
                form.step(record, tally)
            tally.unclear += not found or b"\0" in line
        else:
            tally.unclear += _is_damaged(line)
    if tally is not before:
        tally.keep(before)
    tally.check, tally.content = checks_of(path, tally.offset)
    return tally


def _is_damaged(line: bytes) -> bool:
    """Whether a line may have been an answer. It is not parsed: most lines are something else."""
    text = line.strip()
    return bool(text) and (not (text[:1] == b"{" and text[-1:] == b"}") or b"\0" in text)


def _new_lines(path: Path, tally: _Tally, until: int | None = None) -> Iterator[bytes]:
    """Whole lines only: the last one may be half written. With `until`, none that ends later."""
    with open_file(path) as file:
        tally.day = _day(os.fstat(file.fileno()).st_mtime * 1000)
        file.seek(tally.offset)
        while line := file.readline(MOST_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) < MOST_LINE_BYTES:
                return
            if until is not None and tally.offset + len(line) > until:
                return
            tally.offset += len(line)
            yield line


# --- What each agent writes -----------------------------------------------------------------------


def _claude_code(said: Record, tally: _Tally) -> None:
    """An answer is written block by block, each with the usage of the whole."""
    message = said.get("message")
    if not isinstance(message, dict):
        return
    name, usage = message.get("id"), message.get("usage")
    if isinstance(usage, dict):
        found = _unpriced(
            tokens_in(
                _numbers(usage, tally),
                input=("input_tokens", "cache_creation_input_tokens"),
                output=("output_tokens",),
                cached=("cache_read_input_tokens",),
            )
        )
        if isinstance(name, str) and name:
            when, model = said.get("timestamp"), message.get("model")
            tally.replace(name, when, model, found, most=_MOST_ANSWERS)
        else:  # each is an answer of its own
            tally.add(said.get("timestamp"), message.get("model"), found)
    elif _is_answer(said, message):
        tally.unsaid(name)
    content = message.get("content")
    for block in content if isinstance(content, list) and said.get("type") == "user" else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            tally.ended(failed=block.get("is_error") is True)


def _is_answer(said: Record, message: Record) -> bool:
    """Whether a model said it, and not the agent in its place. What the agent sends is written down
    too, with answers in it, as a record of another type."""
    own = message.get("model") == _NO_MODEL or said.get("isApiErrorMessage") is True
    return said.get("type") == "assistant" and not own


def _codex(said: Record, tally: _Tally) -> None:
    payload = said.get("payload")
    if not isinstance(payload, dict):
        tally.unclear += said.get("type") == "token_usage_record"
        return
    kind = said.get("type") if said.get("type") != "event_msg" else payload.get("type")
    _codex_turn(kind, payload, tally)
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


def _codex_turn(kind: object, payload: Record, tally: _Tally) -> None:
    """What an answer used is written after it, so a turn with two answers, or one that ended, and
    no word about its use is unclear. One that was broken off is not: its answer was not paid for as
    a whole, and a copied history has no turns. `turn` is how far the one is that is under way."""
    turn = tally.carry.get("turn")
    if kind in ("task_started", "turn_started"):
        tally.carry["turn"] = "begun"
    elif kind in ("token_usage_record", "token_count", "turn_aborted"):
        if kind != "token_count" or payload.get("info") is not None:
            tally.carry["turn"] = ""
    elif kind == "response_item" and _is_codex_answer(payload):
        if turn == "between":
            tally.unclear, tally.carry["turn"] = tally.unclear + 1, ""
        elif turn == "begun":
            tally.carry["turn"] = "answered"
    elif kind == "response_item" and turn == "answered":
        tally.carry["turn"] = "between"
    elif kind == "task_complete":
        tally.unclear += turn in ("answered", "between")
        tally.carry["turn"] = ""


def _is_codex_answer(payload: Record) -> bool:
    kind = payload.get("type")
    return payload.get("role") == "assistant" if kind == "message" else kind in _CODEX_CALLS


def _codex_usage(said: Record, usage: object, tally: _Tally) -> None:
    tokens = tokens_in(
        _numbers(usage, tally),
        input=("input_tokens",),
        output=("output_tokens",),
        cached=("cached_input_tokens",),
        cached_is_input=True,
    )
    if tokens is None:
        tally.unclear += said.get("type") == "token_usage_record" and usage is None
    else:
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
            name = str(each["id"])
            tally.replace(name, each.get("timestamp"), each.get("model"), _unpriced(tokens))
        elif each.get("tokens") is None and each.get("content"):
            tally.unsaid(str(each["id"]))  # without words, it may hold only calls of tools
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
    result = call.get("result") if call.get("name") == _GEMINI_SHELL else None
    exits = _GEMINI_EXIT.findall(str(result)[-2_000:])
    tally.ended(failed=call["status"] == "error" or (bool(exits) and exits[-1] != "0"))


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


_CODEX_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_FORMS = {
    "claude-code": _Form(
        having=(b'"usage"', b'"tool_result"', b'"assistant"'),
        step=_claude_code,
        beside=_subagents_of_claude,
    ),
    "codex": _Form(
        having=(
            b'"turn_context"',
            b'"token_usage_record"',
            b'"token_count"',
            b'_output"',
            b'_call"',
            b'"assistant"',
            b'"task_',
            b'"turn_',
        ),
        step=_codex,
    ),
    "gemini": _Form(having=(b'"gemini"',), step=_gemini, beside=_subagents_of_gemini),
}
#: The agents whose sessions can be metered while they run.
METERED = (*_FORMS, "opencode")
#: Those of them that write a file for each session.
TRANSCRIBED = tuple(_FORMS)

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
    " total(json_extract(m.data, '$.cost')),"
    " total(json_extract(m.data, '$.time.completed') IS NOT NULL"
    " AND json_extract(m.data, '$.error') IS NULL"
    " AND (coalesce(json_type(m.data, '$.tokens.input'), '') NOT IN ('integer', 'real')"
    " OR coalesce(json_type(m.data, '$.tokens.output'), '') NOT IN ('integer', 'real')))"
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
    by_day: dict[tuple[str, str], Usage] = {}
    unclear = 0
    for day, model, read, stored, written, thought, cached, cost, unsaid in found:
        unclear += int(unsaid)
        tokens = Tokens(input=int(read + stored), output=int(written + thought), cached=int(cached))
        # A provider without prices costs 0 there, which says nothing.
        unpriced = Tokens() if cost else tokens
        key = str(day or _day(path.stat().st_mtime * 1000)), str(model or "")
        used = Usage(tokens=tokens, cost=cost, unpriced=unpriced)
        by_day[key] = by_day.get(key, Usage()).plus(used)
    errors = 0
    for status, code in ends:
        if status in ("pending", "running"):
            continue
        if status != "error" and not code:
            break
        errors += 1
    now = before.then(by_day)
    return Reading(metered=now.metered, errors=errors, unclear=unclear), now.to_json()


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
            fell = less(self.used.get(key, Usage()), used.get(key, Usage()))
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
    """The files that hooks named, each once, whatever links lead to it."""
    absolute = [name for name in names if name.startswith(os.sep)]
    return [Path(name) for name in dict.fromkeys(map(_real, absolute))]


def _real(name: str) -> str:
    try:
        return os.path.realpath(name)
    except (OSError, ValueError):  # a name that no file can have
        return name
