"""`holdfast checkpoints remote`, `push` and `fetch`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.remotes import prompting
from holdfast.cli.checkpoint_options import session_option
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation, resolved
from holdfast.cli.options import edit_options
from holdfast.cli.output import (
    name,
    nothing_changed,
    print_json,
    say,
    say_rest,
    suggest,
    table,
)
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, applied_json, exit_code, removal_options, remove
from holdfast.cli.show_checkpoints import show_not_captured
from holdfast.cli.take import short
from holdfast.errors import DeclinedError, HoldfastError, UsageError
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from holdfast.api.plan import HomePlan
    from holdfast.model.checkpoint import Checkpoint
    from holdfast.model.remote import Fetch, Push

_SHOWN = 10
_remote_argument = click.argument("remote", metavar="REMOTE")


@command(
    example="holdfast checkpoints remote add backup git@git.example.org:me/checkpoints.git\n"
    "holdfast checkpoints remote list\n"
    "holdfast checkpoints remote remove backup"
)
@click.argument(
    "what",
    metavar="[list | add NAME URL | remove NAME]",
    nargs=-1,
)
@edit_options
def remote(invocation: Invocation, /, what: tuple[str, ...], *, dry_run: bool) -> None:
    """List the git remotes that were named for checkpoints, add one, or forget one.

    Checkpoints go only to a remote that is added here, and only when you push. An empty repository
    is all it takes: `git init --bare`, on any host that git can reach. Forgetting a remote leaves
    what is there. git finds credentials as always: ssh keys, the agent, credential helpers. A
    password in the URL is kept in a private file of the home and never shown.
    """
    verb, *given = what or ("list",)
    wanted = {"list": 0, "add": 2, "remove": 1}.get(verb)
    if wanted is None or len(given) != wanted:
        raise UsageError(
            "Use `remote list`, `remote add NAME URL` or `remote remove NAME`.",
        )
    checkpoints = invocation.checkpoints(may_be_new=True)  # the first remote makes the home
    if verb == "list" or dry_run:
        found = checkpoints.remotes()
    elif verb == "add":
        found = [checkpoints.add_remote(*given)]
    else:
        found = [checkpoints.remove_remote(*given)]
    if invocation.json:
        print_json({"remotes": [each.to_json() for each in found], "applied": not dry_run})
        return
    if dry_run and verb != "list":
        nothing_changed()
    elif verb == "add":
        say(name(f"{found[0].name} is a remote for checkpoints: {found[0].url}"))
        push = f"holdfast {invocation.home_flag}checkpoints push {found[0].name}"
        suggest("Nothing was sent yet.", "To send the checkpoints of this directory:", push)
    elif verb == "remove":
        say(name(f"{found[0].name} is forgotten. What is at {found[0].url} stays there."))
    elif not found:
        add = f"holdfast {invocation.home_flag}checkpoints remote add NAME URL"
        suggest("There is no remote for checkpoints yet.", "To add one:", add)
    else:
        rows = table("remote", "pushed", "fetched", "where", right=("pushed", "fetched"))
        for each in found:
            rows.add_row(name(each.name), f"{each.pushed:,}", f"{each.fetched:,}", name(each.url))
        say(rows)


@command(
    example="holdfast checkpoints push backup\n"
    "holdfast checkpoints push backup ~/work/site ~/work/api\n"
    "holdfast checkpoints push backup --all-projects --prune --dry-run"
)
@_remote_argument
@click.argument("directories", metavar="[DIR]...", nargs=-1, type=click.Path())
@click.option("--all-projects", is_flag=True, help="Push the checkpoints of every project.")
@session_option
@click.option(
    "--max-file-size",
    metavar="SIZE",
    help="Leave out files above this: 1MB; 0 for no limit [as push_max_file_size_mb says].",
)
@click.option("--own-remote", is_flag=True, help="Push even to a remote of the project itself.")
@click.option("--prune", is_flag=True, help="Also remove there what was removed here.")
@removal_options
def push(
    invocation: Invocation,
    /,
    remote: str,
    directories: tuple[str, ...],
    *,
    all_projects: bool,
    session: str | None,
    prune: bool,
    how: RemovalFlags,
    **flags: Any,
) -> int:
    """Send checkpoints to a git remote that was named for it: by default, of the current directory.

    Only what is not there yet is sent. Other machines get it with `holdfast checkpoints fetch`.
    Large files are not sent, nor files that are ignored by now; the command names them, and so
    does the checkpoint there. With --prune, checkpoints that were removed here are removed there as
    well: the command shows them and asks, and they do not come back. Only what this machine sent is
    removed.
    """
    if all_projects and directories:
        raise UsageError("--all-projects pushes every project; leave out the directories.")
    if session is not None and prune:
        raise UsageError("--prune looks at whole projects; leave out --session.")
    if how.plan_out is not None and not prune:
        raise UsageError("--plan-out saves what --prune would remove; add --prune.")
    dry_run = how.dry_run or how.plan_out is not None
    checkpoints, prompt = invocation.checkpoints(), _may_prompt(invocation)
    everything = all_projects or (session is not None and not directories)
    paths = [] if everything else [resolved(each) for each in directories or (None,)]
    with progress(f"talking to {remote}", changes=not dry_run):
        done = checkpoints.push(
            remote, paths, session=session, dry_run=dry_run, prompt=prompt, **flags
        )
        planned = checkpoints.plan_prune_remote(remote, paths, prompt=prompt) if prune else None
    code = HoldfastError.exit_code if done.refused else 0
    if invocation.json:
        return _push_document(done, planned, dry_run=dry_run, yes=how.yes) or code
    _show_push(done, dry_run=dry_run, all_items=how.all_items)
    if planned is None:
        if dry_run:
            nothing_changed()
        return code
    say()
    for each in planned.kept:
        say(name(f"{each.id} stays: this home has no record that it sent it.", "yellow"))
    if not planned.removals:
        say("There is nothing to remove there.")
        return code
    with prompting(prompt):
        return remove(invocation, planned, how) or code


def _may_prompt(invocation: Invocation) -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and not invocation.json


def _push_document(done: Push, planned: HomePlan | None, *, dry_run: bool, yes: bool) -> int:
    document: dict[str, Any] = {**done.to_json(), "applied": not dry_run}
    code = 0
    if planned is not None:
        apply = yes and not dry_run and bool(planned.removals)
        report = planned.apply().report if apply else None
        if planned.removals and not (apply or dry_run):
            code = DeclinedError.exit_code
        document["prune"] = {"plan": planned.to_json(), **applied_json(report)}
        code = code or (0 if report is None else exit_code(report))
    print_json(document)
    return code


def _show_push(done: Push, *, dry_run: bool, all_items: bool) -> None:
    verb = "would be sent" if dry_run else "sent"
    sent = done.accepted
    shown = [each.checkpoint for each in (sent if all_items else sent[-_SHOWN:])]
    _show_checkpoints([(each, each.workdir) for each in shown], len(sent))
    left = {each.path: each for one in sent for each in one.left}
    show_not_captured([*left.values()], all_items=all_items, title="Left out")
    if sent:
        say()
    parts = [f"{format_count(len(sent), 'checkpoint')} {verb} to {done.remote.name}"]
    parts += [f"{done.known:,} already there"] if done.known else []
    parts += [f"{len(done.refused):,} refused"] if done.refused else []
    say(name(f"{'; '.join(parts)} ({done.remote.url}, as {done.machine})."))
    for why in sorted({each.refused for each in done.refused}):
        count = sum(each.refused == why for each in done.refused)
        say(name(f"The remote refused {format_count(count, 'checkpoint')}: {why}", "red"))


def _show_checkpoints(shown: Sequence[tuple[Checkpoint, str]], total: int) -> None:
    """Show some of `total` checkpoints, each with its directory."""
    if not shown:
        return
    rows = table("id", "why", "directory", whole=("id",), front=("directory",))
    for each, where in shown:
        rows.add_row(short(each.id), name(each.reason), name(where))
    say(rows)
    say_rest(total - len(shown), "; --all lists them.")


@command(
    example="holdfast checkpoints fetch backup\n"
    "holdfast checkpoints fetch backup --machine laptop-3f9a2c\n"
    "holdfast checkpoints restore 3f2a1b9c --map /home/ana/site=/srv/site --dry-run"
)
@_remote_argument
@click.option(
    "--machine", "machines", metavar="NAME", multiple=True, help="Only checkpoints of this machine."
)
@click.option(
    "--path",
    "paths",
    metavar="DIR",
    multiple=True,
    help="Only of this directory on the other machine.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Also checkpoints that were fetched before and removed here since.",
)
@click.option("--all", "all_items", is_flag=True, help="List every checkpoint.")
@edit_options
def fetch(
    invocation: Invocation,
    /,
    remote: str,
    *,
    machines: tuple[str, ...],
    paths: tuple[str, ...],
    again: bool,
    all_items: bool,
    dry_run: bool,
) -> int:
    """Bring the checkpoints that other machines pushed to a remote into this home.

    `holdfast checkpoints list --all-projects` shows them with the machine that they come from. To
    restore one, say where its directory is here, with --map. They count towards the limits of
    [checkpoints] like all others, and are removed by the same rules.
    """
    checkpoints = invocation.checkpoints()
    with progress(f"talking to {remote}", changes=not dry_run):
        done = checkpoints.fetch(
            remote,
            machines,
            paths=paths,
            again=again,
            dry_run=dry_run,
            prompt=_may_prompt(invocation),
        )
    if invocation.json:
        print_json({**done.to_json(), "applied": not dry_run})
    else:
        _show_fetch(invocation, done, all_items=all_items, dry_run=dry_run)
    return HoldfastError.exit_code if done.unusable else 0


def _show_fetch(invocation: Invocation, done: Fetch, *, all_items: bool, dry_run: bool) -> None:
    for machine, project, count in done.waiting:
        say(name(f"{machine}: {format_count(count, 'checkpoint')} of project {project}"))
    shown = done.fetched if all_items else done.fetched[:_SHOWN]
    _show_checkpoints([(each, each.place) for each in shown], len(done.fetched))
    if shown:
        say()
    count = sum(each[-1] for each in done.waiting) if dry_run else len(done.fetched)
    verb = "would be fetched" if dry_run else "fetched"
    parts = [f"{format_count(count, 'checkpoint')} {verb} from {done.remote.name}"]
    parts += [f"{done.known:,} already known"] if done.known else []
    parts += [f"{len(done.unusable):,} left there"] if done.unusable else []
    say(name(f"{'; '.join(parts)} ({done.remote.url})."))
    for left in done.unusable:
        say(name(f"{left.ref}: {left.why}", "yellow"))
    if dry_run:
        nothing_changed()
    elif done.fetched:
        newest = done.fetched[0]
        suggest(
            "",
            "To restore one, name its directory on this machine:",
            f"holdfast {invocation.home_flag}checkpoints restore {short(newest.id)}"
            f" --map {newest.workdir}=DIR",
        )
