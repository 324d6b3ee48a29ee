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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.homes.agents.json_lines import MOST_LINE_BYTES, check_of, checks_of, parsed
from holdfast.homes.meters.forms import FORMS, Form
from holdfast.homes.meters.tally import Marks, Reading, Tally, day_of, together
from holdfast.model.loop import Metered
from holdfast.model.usage import Usage
from holdfast.stores.files import open_file


def read_meter(
    agent: str, transcripts: Sequence[Path], marks: Marks, *, session: str = ""
) -> tuple[Reading, Marks]:
    """Count on from the last reading. `transcripts` are the files of the session, and of its
    subagents where the agent keeps them elsewhere; those that it keeps beside them are found here.
    OpenCode has one database for all its sessions, and `session` says which is meant."""
    if agent == "opencode":
        from holdfast.homes.meters.database import from_database  # noqa: PLC0415 - a hook waits

        return from_database(transcripts, session, marks)
    form = FORMS[agent]
    missing: list[str] = []
    known = dict(marks)
    paths = _each_once(_all_of(form, transcripts, missing))
    for path in paths:
        if str(path) not in known:
            _take_over(path, known)
    moved = {name for said in known.values() for name in said.get("was", ())}
    tallies = {name: Tally(said) for name, said in known.items()}  # those of removed files too
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
    used = (each for tally in tallies.values() for each in (tally.used, tally.kept))
    reading = Reading(
        metered=Metered(by_day=together(*used)),
        errors=errors,
        missing=tuple(missing),
        unclear=sum(tally.all_unclear for tally in tallies.values()),
    )
    return reading, {name: tally.to_json() for name, tally in tallies.items()}


def read_transcript(
    agent: str, path: Path, marks: Marks, *, until: int | None = None
) -> tuple[Mapping[str, Usage], Marks]:
    """Count on in one file alone, or only its first `until` bytes: what each model used."""
    tally = _read_on(path, FORMS[agent], marks, until=until)
    models: dict[str, Usage] = {}
    for (_, model), usage in (*tally.used.items(), *tally.kept.items()):
        models[model] = models.get(model, Usage()).plus(usage)
    return models, tally.to_json()


def _all_of(form: Form, transcripts: Sequence[Path], missing: list[str]) -> list[Path]:
    found = list(transcripts)
    for path in transcripts:
        try:
            found += form.beside(path)
        except (OSError, ValueError):
            missing.append(f"the subagents of {path}")
    return found


def _each_once(paths: Sequence[Path]) -> list[Path]:
    """The files without further names of the same file."""
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
        before = Tally(said)
        with suppress(OSError, ValueError):
            check, content = checks_of(path, before.offset)
            moved = content and content == before.content and not os.path.lexists(name)
            if before.offset and (moved or check == before.check):
                del known[name]
                known[str(path)] = {**said, "was": [*before.was, name]}
                return


def _read_on(path: Path, form: Form, said: Any, *, until: int | None = None) -> Tally:
    tally = before = Tally(said)
    if tally.offset and check_of(path, tally.offset) != tally.check:
        tally = Tally({"was": tally.was})  # another file, or written anew
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


def _new_lines(path: Path, tally: Tally, until: int | None = None) -> Iterator[bytes]:
    """The new lines that are whole: the last one may be half written. With `until`, no line that
    ends later."""
    with open_file(path) as file:
        tally.day = day_of(os.fstat(file.fileno()).st_mtime * 1000)
        file.seek(tally.offset)
        while line := file.readline(MOST_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) < MOST_LINE_BYTES:
                return
            if until is not None and tally.offset + len(line) > until:
                return
            tally.offset += len(line)
            yield line


#: The agents whose sessions can be metered while they run.
METERED = (*FORMS, "opencode")
#: Those of them that write a file for each session.
TRANSCRIBED = tuple(FORMS)


def transcript_paths(names: Sequence[str]) -> list[Path]:
    """The files that hooks named, each once, whatever links lead to it."""
    absolute = [name for name in names if name.startswith(os.sep)]
    return [Path(name) for name in dict.fromkeys(map(_real, absolute))]


def _real(name: str) -> str:
    try:
        return os.path.realpath(name)
    except (OSError, ValueError):  # a name that no file can have
        return name
