"""The implementation of `holdfast checkpoints take`, without click.

An agent runs it before every change, so it must start quickly. `main` calls this module directly
for a plain command line; for all others click parses the same flags, and calls it too.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from holdfast.cli.flags import Flag, read
from holdfast.cli.invocation import Invocation, resolved, stored_text
from holdfast.cli.output import note, nothing_changed, print_json, say, suggest
from holdfast.cli.report_error import print_error
from holdfast.cli.streams import be_quiet, state
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.checkpoint import CutRestore, NotCaptured, TakeOutcome, Taking, cut_words
from holdfast.model.json_value import NO_RECORD, fields_from_json, fields_to_json
from holdfast.model.text import format_count, one_line

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

COMMAND = ("checkpoints", "take")
FLAGS = (
    Flag("--reason", "reason", "Why it is taken [by hand].", metavar="TEXT", default="by hand"),
    Flag("--session", "session", "The session it belongs to.", metavar="ID"),
    Flag("--turn", "turn", "The turn of that session.", metavar="TEXT"),
    Flag(
        "--path",
        "paths",
        "Scan only this path and below; the rest is taken from the last checkpoint.",
        metavar="P",
        many=True,
    ),
    Flag("--hash", "hash_all", "Read every file, even if its size and times are unchanged."),
    Flag("--all", "all_items", "List every path that was not captured."),
    Flag("--dry-run", "dry_run", "Show what would be taken and stop there.", short="-n"),
    Flag("--yes", "yes", "Has no effect here: this command never asks.", short="-y"),
)
SHORT_ID = 12


def quick(args: Sequence[str]) -> tuple[Invocation, Callable[[], int]] | None:
    """A plain command line as a function to call; None if click has to parse it."""
    line = read(args, COMMAND, FLAGS, most=1)
    if line is None:
        return None
    given, arguments = dict(line[0]), line[1]
    invocation = Invocation(
        args=tuple(args),
        home=given.pop("home"),
        agent=given.pop("agent"),
        json=given.pop("json"),
        quiet=given.pop("quiet"),
        debug=given.pop("debug"),
    )

    def run() -> int:
        if not given["dry_run"]:
            state.outlives_reader, state.only_reads = True, False
        if invocation.quiet:
            be_quiet(silent=not given["dry_run"])
        return take(invocation, arguments[0] if arguments else None, **given)

    return invocation, run


def tell_answer(args: Sequence[str], document: bytes) -> int | None:
    """Report what the helper did, as `take` would; None if the document is not a valid answer."""
    line = read(args, COMMAND, FLAGS, most=1)
    try:
        data = json.loads(document)
        left = tuple(NotCaptured(path=path, reason=why) for path, why in data["left"])
        outcome = TakeOutcome(data["outcome"])
        cut = data.get("cut_restore")
        restore = None if cut is None else fields_from_json(CutRestore, cut)
        taking = fields_from_json(
            Taking, data, outcome=outcome, not_captured=left, cut_restore=restore
        )
    except NO_RECORD:
        return None
    if line is None:
        return None
    invocation = Invocation(args=tuple(args), home=line[0]["home"])
    _tell(invocation, resolved(line[1][0] if line[1] else None), taking, all_items=False)
    return 0


def take(  # noqa: PLR0913 - one for each flag
    invocation: Invocation,
    directory: str | None,
    *,
    reason: str,
    session: str | None,
    turn: str | None,
    paths: tuple[str, ...],
    hash_all: bool,
    all_items: bool,
    dry_run: bool,
    yes: bool,  # noqa: ARG001 - nothing is asked
) -> int:
    """Take a checkpoint, report the result, and return the exit code."""
    workdir = resolved(directory)
    texts = {"--reason": reason, "--session": session or "", "--turn": turn or ""}
    reason, session_id, turn_name = (
        stored_text(text, flag).strip() for flag, text in texts.items()
    )
    capture = invocation.capture()
    if dry_run:
        with _progress(changes=False):
            taking = capture.foresee(workdir, paths=paths, hash_all=hash_all)
        _tell(invocation, workdir, taking, all_items=all_items, foreseen=reason)
        return _skipped_code(workdir) if taking.outcome is TakeOutcome.SKIPPED else 0
    with _progress(changes=True):
        taking = capture.take(
            workdir,
            reason=reason,
            session=session_id or None,
            turn=turn_name or None,
            paths=paths,
            hash_all=hash_all,
        )
    _tell(invocation, workdir, taking, all_items=all_items)
    return 0 if taking.id else _skipped_code(workdir)


def _skipped_code(workdir: Path) -> int:
    """The exit code of a skipped checkpoint. A directory that does not exist was mistyped, like any
    other wrong argument."""
    return HoldfastError.exit_code if workdir.is_dir() else UsageError.exit_code


def _progress(*, changes: bool) -> AbstractContextManager[object]:
    """Progress only for a user at a terminal. An agent must not wait for the progress display to
    load."""
    if not sys.stderr.isatty():
        return nullcontext()
    from holdfast.cli.progress import progress

    return progress("taking a checkpoint", changes=changes)


def short(checkpoint_id: str) -> str:
    """The part of an id that people need to tell it from others."""
    return checkpoint_id[:SHORT_ID]


def _tell(
    invocation: Invocation,
    workdir: Path,
    taking: Taking,
    *,
    all_items: bool,
    foreseen: str | None = None,
) -> None:
    """Report the result. In a dry run, `foreseen` is the reason that was given."""
    dry = foreseen is not None
    if taking.outcome is TakeOutcome.SKIPPED:
        said = f"No checkpoint {'would be' if dry else 'was'} taken. {taking.reason}."
        print_error(HoldfastError(said, hint=_elsewhere(invocation, workdir)), as_json=False)
    if taking.cut_restore is not None:
        note(one_line(f"warning: {cut_words(taking.cut_restore, str(workdir))}"))
    if invocation.json:
        told = {"reason": taking.reason or foreseen, "files_changed": taking.files_changed}
        print_json({**_document(taking), **({**told, "applied": False} if dry else {})})
        return
    if taking.outcome is not TakeOutcome.SKIPPED:
        if taking.outcome is TakeOutcome.UNCHANGED:
            known = short(taking.id or "")
            say(one_line(f"Nothing changed in {workdir} since checkpoint {known}."))
        elif taking.id is not None:
            restore = f"holdfast {invocation.home_flag}checkpoints restore {short(taking.id)}"
            took = one_line(f"Took checkpoint {short(taking.id)} of {workdir}.")
            suggest(took, "Go back to it with:", restore)
        else:
            files = format_count(taking.files_changed, "file")
            say(one_line(f"Would take a checkpoint of {workdir}: {files} changed."))
        _tell_left_out(invocation, taking, all_items=all_items)
    if dry:
        nothing_changed()


def is_refused(invocation: Invocation, workdir: Path) -> bool:
    """True if an existing directory can never have a checkpoint, such as a home directory."""
    if not workdir.is_dir():
        return False
    return invocation.capture().own_store(create=False).refusal(workdir) is not None


def _elsewhere(invocation: Invocation, workdir: Path) -> str | None:
    if not is_refused(invocation, workdir):
        return None
    command = f"holdfast {invocation.home_flag}checkpoints take DIR"
    return f"Pass the directory of a project: `{command}`."


def _document(taking: Taking) -> dict[str, Any]:
    cut = taking.cut_restore
    return {
        "outcome": taking.outcome.value,
        "id": taking.id,
        "reason": taking.reason,
        "not_captured": not_captured_json(taking.not_captured),
        "excluded": taking.excluded,
        **({} if cut is None else {"cut_restore": fields_to_json(cut)}),
    }


def not_captured_json(left: Sequence[NotCaptured]) -> list[dict[str, str]]:
    return [{"path": each.path, "reason": each.reason} for each in left]


def _tell_left_out(invocation: Invocation, taking: Taking, *, all_items: bool) -> None:
    if taking.not_captured:
        from holdfast.cli.show_checkpoints import show_not_captured

        show_not_captured(taking.not_captured, all_items=all_items)
    if taking.excluded:
        left = format_count(taking.excluded, "file or folder", "files and folders")
        flag = invocation.home_flag
        note(f"{left} left out by default: `holdfast {flag}checkpoints excluded` lists them")
