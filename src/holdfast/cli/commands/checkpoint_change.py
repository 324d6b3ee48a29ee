"""`holdfast checkpoints restore`, `pin`, `unpin`, `rename` and `import`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.home import Home
from holdfast.api.place import checkpoints_to_import
from holdfast.cli.checkpoint_options import (
    chosen,
    hash_option,
    id_argument,
    ids_argument,
    paths_argument,
)
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation, resolved, stored_text
from holdfast.cli.options import edit_options, map_option, read_maps
from holdfast.cli.output import name, nothing_changed, print_json, say, suggest, table, when
from holdfast.cli.progress import progress
from holdfast.cli.removal import asked, print_declined, tell_finished
from holdfast.cli.show_checkpoints import checkpoint_json, show_foreseen, show_not_captured
from holdfast.cli.take import not_captured_json, short
from holdfast.errors import DeclinedError, HoldfastError
from holdfast.model.checkpoint import ImportState
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from holdfast.api.checkpoint_restore import CheckpointRestorePlan
    from holdfast.model.checkpoint import Checkpoint, Imported, NotCaptured, Rollback

_SHOWN = 10
_NOTHING: Mapping[str, str] = MappingProxyType({})


@command(
    example="holdfast checkpoints restore 3f2a1b9c --dry-run\n"
    "holdfast checkpoints restore 3f2a1b9c src/main.py --yes"
)
@id_argument
@paths_argument
@hash_option
@map_option
@click.option("--all", "all_items", is_flag=True, help="List every path.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", "-n", is_flag=True, help="Show what would change and stop there.")
def restore(
    invocation: Invocation,
    /,
    checkpoint: str,
    paths: tuple[str, ...],
    *,
    hash_all: bool,
    maps: tuple[str, ...],
    all_items: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Bring a project back to a checkpoint, byte for byte: all of it, or the given paths.

    The command shows which files it will write, change and delete, and asks. It does exactly that:
    a file that changed after it was shown is left alone and named, and the exit code is 1; so it is
    if a path that you give has to be left alone. Before the first change it takes a checkpoint of
    the present state, so that `holdfast undo` can undo the restore. Files that the checkpoint did
    not cover, such as ignored files, stay as they are. A checkpoint that was fetched from another
    machine needs --map: where its directory is here.
    """
    checkpoints, places = invocation.checkpoints(), read_maps(maps)
    with progress("comparing the project with the checkpoint"):
        if not dry_run:
            tell_finished(checkpoints.settle())
        target = chosen(checkpoints, checkpoint)
        planned = checkpoints.plan_restore(target, paths, hash_all=hash_all, maps=places)
    target, foreseen = planned.checkpoint, planned.preview
    if not invocation.json:
        _show_restore(target, planned, all_items=all_items)
    if dry_run or planned.changes_nothing:
        _document_restore(invocation, foreseen)
        if dry_run:
            if not invocation.json:
                nothing_changed()
            return 0
        return HoldfastError.exit_code if _leaves_a_given_path(planned) else 0
    declined = None if yes else _ask(foreseen, invocation.undo_command)
    if declined is not None:
        _document_restore(invocation, foreseen)
        return print_declined(declined)
    with progress("restoring", changes=True) as shown:
        report = planned.apply(progress=shown)
    done, left = report.rollback, report.left
    _document_restore(invocation, done, left, applied=True)
    if not invocation.json:
        _tell_restore(invocation, done, left, all_items=all_items)
    failed = left or not (done.written or done.deleted) or _leaves_a_given_path(planned)
    return HoldfastError.exit_code if failed else 0


def _leaves_a_given_path(planned: CheckpointRestorePlan) -> bool:
    """True if a path that the user gave, or the folder that it is in, is left alone. Paths below a
    given directory do not count: a restore leaves alone what it may not touch there."""
    left = {each.path for each in planned.preview.kept}
    given = map(PurePosixPath, planned.paths or ())
    return any(not left.isdisjoint(map(str, (path, *path.parents))) for path in given)


def _ask(foreseen: Rollback, undo: str) -> DeclinedError | None:
    gone = f", deleting {len(foreseen.deleted):,} of them" if foreseen.deleted else ""
    paths = format_count(len(foreseen.written) + len(foreseen.deleted), "path")
    fact = f"A checkpoint is taken first, so `{undo}` can undo this."
    return asked(f"Restore {paths}{gone}?", "restored", facts=[fact])


def _show_restore(target: Checkpoint, planned: CheckpointRestorePlan, *, all_items: bool) -> None:
    foreseen = planned.preview
    known = f"checkpoint {short(target.known_id)} of {when(target.time)}"
    if planned.changes_nothing and _leaves_a_given_path(planned):
        say(name(f"Nothing in {target.workdir} would be restored to {known}."))
    elif planned.changes_nothing:
        but = ", apart from paths that are left alone" if foreseen.kept else ""
        say(name(f"{target.workdir} already matches {known}{but}. There is nothing to restore."))
    else:
        say(name(f"Restoring {target.workdir} to {known}: {target.reason}", "bold"))
    show_foreseen(target.workdir, foreseen, all_items=all_items)


def _tell_restore(
    invocation: Invocation,
    done: Rollback,
    left: Sequence[NotCaptured],
    *,
    all_items: bool,
) -> None:
    """Report what was done and what was left alone, in the preview or since, and how to undo the
    restore."""
    say()
    say(f"{len(done.written):,} written, {len(done.deleted):,} deleted.")
    show_not_captured(left, all_items=all_items, title="Left alone")
    if left:
        say("These files were left as they are. Run the restore again to see what it would do now.")
    if done.operation is not None:
        safety = short(done.safety_checkpoint or "")
        told = f"Checkpoint {safety} holds the state from before the restore."
        undo = f"{invocation.undo_command} {done.operation}"
        suggest(told, "To undo the restore:", undo)


def _document_restore(
    invocation: Invocation,
    rollback: Rollback,
    left: Sequence[NotCaptured] = (),
    *,
    applied: bool = False,
) -> None:
    if not invocation.json:
        return

    document: dict[str, Any] = {
        "applied": applied,
        "written": list(rollback.written),
        "deleted": list(rollback.deleted),
        "kept": not_captured_json(rollback.kept),
        "left": not_captured_json(left),
        "safety_checkpoint": rollback.safety_checkpoint,
        "operation": rollback.operation,
    }
    print_json(document)


@command(example="holdfast checkpoints pin 3f2a1b9c")
@ids_argument
@edit_options
def pin(invocation: Invocation, ids: tuple[str, ...], *, dry_run: bool) -> int:
    """Pin checkpoints so that no rule, no limit and no newer checkpoint removes them."""
    return _pin(invocation, ids, pinned=True, dry_run=dry_run)


@command(example="holdfast checkpoints unpin 3f2a1b9c")
@ids_argument
@edit_options
def unpin(invocation: Invocation, ids: tuple[str, ...], *, dry_run: bool) -> int:
    """Remove the pin from checkpoints. From then on rules and limits apply to them again."""
    return _pin(invocation, ids, pinned=False, dry_run=dry_run)


def _pin(invocation: Invocation, ids: Sequence[str], *, pinned: bool, dry_run: bool) -> int:
    checkpoints = invocation.checkpoints()
    found = [chosen(checkpoints, each) for each in ids]  # check all ids before anything changes
    already = {} if pinned else {each.id: "was not pinned" for each in found if not each.pinned}
    if dry_run:
        what = "would be pinned" if pinned else "would no longer be pinned"
    else:
        found = [*checkpoints.pin_all(found, pinned)]
        what = "is pinned" if pinned else "is no longer pinned"
    return _tell_edit(invocation, found, what, dry_run=dry_run, already=already)


@command(example='holdfast checkpoints rename 3f2a1b9c "works on all machines"')
@id_argument
@click.argument("text", metavar="NAME")
@edit_options
def rename(invocation: Invocation, checkpoint: str, text: str, *, dry_run: bool) -> int:
    """Give a checkpoint a name, which protects it like a pin; an empty name ("") removes it."""
    wanted = stored_text(text, "The name").strip()
    checkpoints = invocation.checkpoints()
    found = chosen(checkpoints, checkpoint)
    if dry_run:
        named = f"would be called {wanted!r}" if wanted else "would no longer have a name"
    else:
        found = checkpoints.rename(found, wanted)
        named = f"is now called {found.name!r}" if found.name else "no longer has a name"
    return _tell_edit(invocation, [found], named, dry_run=dry_run)


def _tell_edit(
    invocation: Invocation,
    changed: Sequence[Checkpoint],
    what: str,
    *,
    dry_run: bool,
    already: Mapping[str, str] = _NOTHING,
) -> int:
    """Report the changed checkpoints. `already` has the reasons why some needed no change."""
    if invocation.json:
        documents = [checkpoint_json(each) for each in changed]
        one = {"checkpoint": documents[0]} if len(documents) == 1 else {}
        print_json({**one, "checkpoints": documents, "applied": not dry_run})
        return 0
    for each in changed:
        say(f"Checkpoint {short(each.id)} {already.get(each.id) or what}.")
    if dry_run:
        nothing_changed()
    return 0


@command(
    "import",
    example="holdfast checkpoints import --dry-run\n"
    "holdfast checkpoints import ~/work/site\n"
    "holdfast checkpoints import /srv/agent/.hermes",
)
@click.argument("source", metavar="[PATH]", required=False, type=click.Path())
@click.option("--all", "all_items", is_flag=True, help="List every checkpoint.")
@edit_options
def import_(invocation: Invocation, source: str | None, *, all_items: bool, dry_run: bool) -> int:
    """Import the checkpoints that Hermes took into Holdfast's own store, with times and reasons.

    PATH is a home of Hermes, or a directory that it took checkpoints of; the default is all of
    $HERMES_HOME, or else of ~/.hermes. Nothing changes there. You can repeat the import: it skips
    checkpoints that were imported before. It reads older layouts too.
    """
    named = None if source is None else resolved(source)
    home, workdir = checkpoints_to_import(named, os.environ)
    place = invocation.checked_place(invocation.home_path)
    with progress("importing", stoppable=True) as shown:
        done = Home(place).import_checkpoints(home, path=workdir, dry_run=dry_run, progress=shown)
    if invocation.json:
        print_json(_document_import(home.resolve(), done, dry_run=dry_run))
    else:
        _show_import(invocation, home.resolve(), done, all_items=all_items, dry_run=dry_run)
    skipped = any(each.state is ImportState.SKIPPED for each in done)
    return HoldfastError.exit_code if skipped else 0


def _document_import(home: Path, done: Sequence[Imported], *, dry_run: bool) -> dict[str, Any]:
    return {
        "source": str(home),
        "applied": not dry_run,
        **_counts(done),
        "checkpoints": [each.to_json() for each in done],
    }


def _counts(done: Sequence[Imported]) -> dict[str, int]:
    return {state.value: sum(each.state is state for each in done) for state in ImportState}


def _show_import(
    invocation: Invocation,
    home: Path,
    done: Sequence[Imported],
    *,
    all_items: bool,
    dry_run: bool,
) -> None:
    fresh = [each for each in done if each.state is not ImportState.KNOWN]
    if fresh:
        rows = table(
            "of Hermes",
            "here",
            "taken",
            "why",
            "directory",
            whole=("of Hermes", "here", "taken"),
            front=("directory",),
            drops=("here", "taken"),
        )
        for each in fresh if all_items else fresh[:_SHOWN]:
            why = each.reason if not each.why else f"skipped: {each.why}"
            rows.add_row(
                short(each.origin), short(each.id), when(each.time), name(why), name(each.workdir)
            )
        say(rows)
        if len(fresh) > _SHOWN and not all_items:
            say(f"… and {len(fresh) - _SHOWN:,} more; --all lists them.")
        say()
    counts = _counts(done)
    verb = "would be imported" if dry_run else "imported"
    parts = [f"{format_count(counts['imported'], 'checkpoint')} {verb} from {home}"]
    parts += [f"{counts['known']:,} already known"] if counts["known"] else []
    parts += [f"{counts['skipped']:,} skipped"] if counts["skipped"] else []
    told = name("; ".join(parts) + ".")
    if counts["imported"] and not dry_run:
        listing = f"holdfast {invocation.home_flag}checkpoints list --all-projects"
        suggest(told, "To see them:", listing)
    else:
        say(told)
    if dry_run:
        nothing_changed()
