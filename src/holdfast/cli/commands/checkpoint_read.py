"""`holdfast checkpoints status`, `list`, `show`, `excluded` and `verify`: the commands that
read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import plain
from holdfast.cli.checkpoint_options import (
    chosen,
    directory_argument,
    ids_argument,
    session_option,
    take_command,
)
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation, quoted, resolved
from holdfast.cli.numbers import WholeNumber
from holdfast.cli.options import Keys, in_order, sort_option
from holdfast.cli.output import joined, name, note, print_json, say, styled, suggest, table
from holdfast.cli.progress import progress
from holdfast.cli.show_checkpoints import (
    checkpoint_json,
    project_json,
    show_checkpoint,
    show_list,
    show_not_captured,
    show_older,
    show_paths,
    show_projects,
)
from holdfast.cli.take import not_captured_json, short
from holdfast.errors import DamageError, UsageError
from holdfast.model.text import format_bytes, format_count

if TYPE_CHECKING:
    from holdfast.api.values import CheckpointStatus
    from holdfast.cli.plain import Line
    from holdfast.model.checkpoint import Captured, Checkpoint, Entry, Project
    from holdfast.model.checkup import Damage, Verification


_FOLDER = "checkpoints"
_LIST_KEYS: Keys[Checkpoint] = {
    "id": lambda each: each.id,
    "age": lambda each: each.time,  # the newest first, as everywhere
    "files": lambda each: each.files_changed,
    "lines": lambda each: (each.insertions or 0) + (each.deletions or 0),
    "why": lambda each: each.name or each.reason,
}
#: How many projects are shown by default.
_USUAL_LIMIT = 20
#: How many other projects are shown if a directory has no checkpoints.
_FEW = 20
_NAMED = 3


@command(
    example="holdfast checkpoints\nholdfast checkpoints status --limit 50\n"
    "holdfast checkpoints status --json"
)
@click.option(
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help=f"Show the N projects used last [{_USUAL_LIMIT}].",
)
@click.option("--all", "all_items", is_flag=True, help="Show every project.")
def status(invocation: Invocation, *, limit: int | None = None, all_items: bool = False) -> None:
    """Show which projects have checkpoints, their state, and how much space they take.

    The size of a project is the space that removing it alone would free; what it shares with other
    projects is not part of it. Archives of an older layout are listed with their size; Holdfast
    never removes them by itself. This command only reads.
    """
    place = invocation.open_place()
    with progress("measuring the checkpoints"):
        found = invocation.checkpoints().status()
    base = place.home.root / _FOLDER
    if invocation.json:
        print_json(_document_status(base, found))
    else:
        _show_status(invocation, base, found, limit=None if all_items else limit or _USUAL_LIMIT)


def _document_status(base: Path, found: CheckpointStatus) -> dict[str, Any]:
    return {
        "base": str(base),
        "total_bytes": found.total_bytes,
        "store_bytes": found.store_bytes,
        "legacy_bytes": found.legacy_bytes,
        "project_count": len(found.projects),
        "checkpoint_count": sum(each.checkpoints for each in found.projects),
        "projects": [project_json(each) for each in found.projects],
        "legacy_archives": [
            {
                "name": each.id,
                "bytes": each.bytes,
                "moved_at": each.last_active_at,
                "workdir": found.older[each.id].workdir if each.id in found.older else None,
            }
            for each in found.legacy
        ],
        "problems": [{"path": each.path, "reason": each.reason} for each in found.problems],
    }


def _show_status(
    invocation: Invocation, base: Path, found: CheckpointStatus, *, limit: int | None
) -> None:
    holdfast = f"holdfast {invocation.home_flag}checkpoints"
    if found.total_bytes:
        say(joined(("checkpoints in ", "bold"), name(str(base), "bold cyan")))
        say(_figures(found))
        say()
    if found.projects:
        show_projects(found.projects, invocation.now, limit=limit)
        say()
    if found.legacy:
        show_older(found.legacy, found.older, invocation.now)
        told = (
            "They can still be read and restored. Archives stay until you clear them; single "
            "repositories are pruned like projects."
        )
        suggest(told, "To clear all of them:", f"{holdfast} clear-legacy")
        say()
    for problem in found.problems:
        say(name(f"{problem.path}: {problem.reason}", "yellow"))
    if found.problems:
        say()
    if found.projects:
        suggest("", "To see what the policy would remove:", f"{holdfast} prune --dry-run")
    elif found.legacy:
        told = "There are no checkpoints of the current layout yet."
        suggest(told, "To see those of the older one:", f"{holdfast} list --all-projects")
    else:
        first = take_command(invocation, None)
        suggest("There are no checkpoints yet.", "To take the first one:", first)


def _figures(found: CheckpointStatus) -> str:
    """`12.3 MB: store 10.1 MB, older layouts 2.2 MB; 17 checkpoints of 3 projects`."""
    parts = [f"store {format_bytes(found.store_bytes)}"]
    if found.legacy_bytes:
        parts.append(f"older layouts {format_bytes(found.legacy_bytes)}")
    count = format_count(sum(each.checkpoints for each in found.projects), "checkpoint")
    projects = format_count(len(found.projects), "project")
    trash = f", {format_count(found.trash, 'item')} in the trash" if found.trash else ""
    total = format_bytes(found.total_bytes)
    return f"total {total}: {', '.join(parts)}; {count} of {projects}{trash}"


@command(
    "list",
    example="holdfast checkpoints list\n"
    "holdfast checkpoints list ~/work/site\n"
    "holdfast checkpoints list --all-projects --session 20260325_112518_6995d1",
)
@directory_argument
@click.option("--all-projects", is_flag=True, help="List the checkpoints of every project.")
@session_option
@click.option(
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Show the first N.",
)
@sort_option(_LIST_KEYS, "age")
def list_(
    invocation: Invocation,
    /,
    directory: str | None,
    *,
    all_projects: bool,
    session: str | None,
    limit: int | None,
    sort: str,
) -> None:
    """List the checkpoints of a directory, the newest first: by default, of the current one.

    In a subfolder these are the checkpoints of its project, unless the subfolder has its own. The
    counts of files and lines compare each checkpoint with the one before it. If there are no
    checkpoints of a directory, the command lists the projects that have some.
    """
    if all_projects and directory is not None:
        raise UsageError("--all-projects lists every project; leave out the directory.")
    all_projects = all_projects or (session is not None and directory is None)
    workdir = None if all_projects else resolved(directory)
    if session is None and _is_new(invocation):
        if invocation.json:
            print_json({"checkpoints": []})
        else:
            _say_none(invocation, workdir, (), directory)
        return
    checkpoints = invocation.checkpoints()
    with progress("reading the checkpoints"):
        everything = checkpoints.list(workdir)
        matching = everything if session is None else checkpoints.list(workdir, session=session)
        if session is not None and not matching and not checkpoints.has_session(session):
            invocation.machine.expect(session, invocation.open_place())
    found = in_order(matching, _LIST_KEYS, sort)[:limit]
    others = () if everything or workdir is None else checkpoints.projects()
    elsewhere = [each for each in others if not each.machine]
    if invocation.json:
        print_json(
            {
                "checkpoints": [checkpoint_json(each) for each in found],
                **({"projects": [project_json(each) for each in elsewhere]} if elsewhere else {}),
            }
        )
    elif everything and not found:
        say("That session has no checkpoints.")
    elif not found:
        _say_none(invocation, workdir, elsewhere, directory)
    else:
        if workdir is not None and found[0].workdir != str(workdir):
            note(f"note: these are the checkpoints of {found[0].workdir}, which {workdir} is in.")
        show_list(found, invocation.now, places=all_projects)
        if len(found) < len(matching):
            rest = len(matching) - len(found)
            text = f"… and {rest:,} more; --limit {len(matching)} shows them all."
            note(text) if plain.is_piped() else say(text, "dim")


def _is_new(invocation: Invocation) -> bool:
    """True on a machine without any home, if none was named: the first checkpoint makes one."""
    if invocation.chosen_home is not None or invocation.home_path.exists():
        return False
    machine = invocation.machine
    return not machine.homes and not machine.unread


def _say_none(
    invocation: Invocation,
    workdir: Path | None,
    elsewhere: Sequence[Project],
    directory: str | None,
) -> None:
    """A user who asks about a directory without checkpoints may mean another project."""
    exists = workdir is None or workdir.is_dir()
    if not exists:
        say(name(f"{workdir} does not exist, and has no checkpoints."))
    else:
        of = "" if workdir is None or not elsewhere else f" of {workdir}"
        told = name(f"There are no checkpoints{of} yet.")
        suggest(told, "To take the first one:", take_command(invocation, directory))
    if not elsewhere:
        return

    say()
    say("Projects that have checkpoints:")
    show_projects(elsewhere, invocation.now, limit=_FEW)
    say()
    listing = f"holdfast {invocation.home_flag}checkpoints list"
    suggest(
        "",
        "To list the checkpoints of a project, or of all:",
        f"{listing} {quoted(Path(elsewhere[0].workdir))}",
        f"{listing} --all-projects",
    )


@command(example="holdfast checkpoints show 3f2a1b9c\nholdfast checkpoints show 3f2a1b9c --all")
@ids_argument
@click.option("--all", "all_items", is_flag=True, help="List every path.")
def show(invocation: Invocation, ids: tuple[str, ...], *, all_items: bool) -> None:
    """Show checkpoints: when and why each was taken, its files, and what was left out.

    The start of an id is enough while it is unique.
    """
    checkpoints = invocation.checkpoints()
    with progress("reading the checkpoint"):
        found = [checkpoints.show(chosen(checkpoints, each)) for each in ids]
    if invocation.json:
        documents = [_document_show(*each) for each in found]
        print_json(documents[0] if len(documents) == 1 else {"checkpoints": documents})
        return
    for number, each in enumerate(found):
        if number:
            say()
        _show(*each, all_items=all_items)


def _show(found: Checkpoint, captured: Captured, *, all_items: bool) -> None:
    show_checkpoint(found)
    paths = _entries(captured)
    show_paths(
        f"Captured ({format_count(len(captured.files), 'file')})",
        [_line(path, entry) for path, entry in paths],
        style="green",
        all_items=all_items,
    )
    show_not_captured(found.not_captured, all_items=all_items)


def _entries(captured: Captured) -> list[tuple[str, Entry]]:
    return sorted({**captured.directories, **captured.files}.items())


def _line(path: str, entry: Entry) -> Line:
    return styled(f"{entry.mode:06o}  ", style="dim").append_text(
        name(path + ("/" if entry.is_directory else ""), "default")
    )


def _document_show(checkpoint: Checkpoint, captured: Captured) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint_json(checkpoint),
        "captured": [
            {"path": path, "mode": f"{entry.mode:06o}", "oid": entry.oid or None}
            for path, entry in _entries(captured)
        ],
        "not_captured": not_captured_json(checkpoint.not_captured),
    }


@command(example="holdfast checkpoints excluded\nholdfast checkpoints excluded ~/work/site --all")
@directory_argument
@click.option("--all", "all_items", is_flag=True, help="List every path.")
def excluded(invocation: Invocation, /, directory: str | None, *, all_items: bool) -> None:
    """List the paths that checkpoints of a directory leave out by default, each with its rule.

    These are dependencies, build output, caches, media, archives, secrets, logs and what `exclude`
    in config.toml adds. A folder is listed once, without its contents. Paths that your own
    .gitignore files leave out are not listed; `git status --ignored` lists them. To capture a path
    anyway, put `!name` into the project's .gitignore or into `exclude`.
    """
    workdir = resolved(directory)
    with progress("looking at the directory"):
        found = invocation.capture().excluded(workdir)
    if invocation.json:
        print_json(
            {
                "workdir": str(workdir),
                "excluded": [
                    {"path": each.path, "rule": each.rule, "directory": each.is_directory}
                    for each in found
                ],
            }
        )
        return

    if not found:
        say(name(f"The default excludes leave nothing out of {workdir}."))
    show_paths(
        f"Left out of {workdir} by default ({format_count(len(found), 'path')})",
        [
            name(each.path + ("/" if each.is_directory else "")).append(
                f"  {each.rule}", style="dim"
            )
            for each in found
        ],
        style="yellow",
        all_items=all_items,
    )


@command(example="holdfast checkpoints verify\nholdfast checkpoints verify --json")
def verify(invocation: Invocation) -> int:
    """Read everything in the checkpoint store, and name damage and the checkpoints that need it.

    The command only reads; agents may take checkpoints meanwhile. The exit code is 5 when it finds
    damage. Every checkpoint that it does not name is intact and can be restored.
    """
    with progress("verifying the checkpoints"):
        found = invocation.checkpoints().verify()
    if invocation.json:
        print_json(found.to_json())
    else:
        _show_verified(found)
    return 0 if found.ok else DamageError.exit_code


def _show_verified(found: Verification) -> None:
    if found.problems:
        _show_problems(found)
        say()
    count = format_count(found.checkpoints, "checkpoint")
    if not found.checkpoints and not found.problems:
        say("There are no checkpoints yet, so there is nothing to verify.")
    elif found.ok:
        say(f"{count}, intact." if found.checkpoints == 1 else f"{count}: all are intact.")
    else:
        say("Damage was found. Checkpoints that are not named here are intact.")


def _show_problems(found: Verification) -> None:
    rows = table("what", "which", "found")
    for each in found.problems:
        style = "yellow" if each.harmless else "bold red"
        rows.add_row(styled(each.kind, style=style), name(each.name), name(_words(each)))
    say(rows)


def _words(damage: Damage) -> str:
    if not damage.checkpoints:
        return damage.reason
    named = ", ".join(short(each) for each in damage.checkpoints[:_NAMED])
    more = len(damage.checkpoints) - _NAMED
    return f"{damage.reason}; needed by {named}{f' and {more:,} more' if more > 0 else ''}"
