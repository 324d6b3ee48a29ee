"""Usage of a running session so far, and the results of its last tools, from its agent's files.

A hook calls this before every tool, so nothing is read twice: each transcript is read from where
the last reading stopped, if it is still the same file. The state between readings is in `Marks`,
which the caller stores.

Usage never decreases: if a transcript is truncated, rewritten or removed, the usage in it before is
kept, and new usage is added.

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
    subagents if the agent stores them elsewhere; subagents next to a transcript are found here.
    OpenCode has one database for all its sessions, so `session` selects one."""
    if agent == "opencode":
        from holdfast.homes.meters.database import from_database  # noqa: PLC0415 - a hook is waiting

        return from_database(transcripts, session, marks)
    form = FORMS[agent]
    missing: list[str] = []
    known = dict(marks)
    paths = _each_once(_all_of(form, transcripts, missing))
    for path in paths:
        if str(path) not in known:
            _take_over(path, known)
    moved = {name for said in known.values() for name in said.get("was", ())}
    tallies = {name: Tally(said) for name, said in known.items()}  # including removed files
    errors = 0
    for path in paths:
        try:
            tally = tallies[str(path)] = _read_on(path, form, known.get(str(path)))
        except (OSError, ValueError) as error:  # ValueError: an invalid file name
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
    """Count on in one file alone, or only in its first `until` bytes. Returns the usage per
    model."""
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
    """One path per file, without its other names."""
    found: dict[object, Path] = {}
    for path in paths:
        try:
            status = path.stat()
            found.setdefault((status.st_dev, status.st_ino), path)
        except (OSError, ValueError):
            found.setdefault(path, path)
    return list(found.values())


def _take_over(path: Path, known: dict[str, Any]) -> None:
    """Continue from the reading of the same file under another name: it was moved, or is a link.
    After a move to another disk, it has the content of a file that is gone."""
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
        tally = Tally({"was": tally.was})  # another file, or rewritten
    for line in _new_lines(path, tally, until):
        if any(each in line for each in form.having):
            found = False
            for record in parsed(line.strip(b"\0")):  # after a crash, a lost block reads as zeros
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
    """True if a line may have been an answer. It is not parsed: most lines are something else."""
    text = line.strip()
    return bool(text) and (not (text[:1] == b"{" and text[-1:] == b"}") or b"\0" in text)


def _new_lines(path: Path, tally: Tally, until: int | None = None) -> Iterator[bytes]:
    """The new complete lines: the last one may be half written. With `until`, only lines that end
    before it."""
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
#: Those of them with a file per session.
TRANSCRIBED = tuple(FORMS)


def transcript_paths(names: Sequence[str]) -> list[Path]:
    """The files that hooks passed, each once even if several links lead to it."""
    absolute = [name for name in names if name.startswith(os.sep)]
    return [Path(name) for name in dict.fromkeys(map(_real, absolute))]


def _real(name: str) -> str:
    try:
        return os.path.realpath(name)
    except (OSError, ValueError):  # an invalid file name
        return name
