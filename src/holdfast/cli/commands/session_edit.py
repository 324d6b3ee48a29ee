"""`holdfast sessions rename`, `pin`, `unpin` and `end`: what a user can change about sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.completing import session_ids
from holdfast.cli.frame import command
from holdfast.cli.homes import home_json, where_they_are
from holdfast.cli.invocation import Invocation, stored_text
from holdfast.cli.options import edit_options
from holdfast.cli.output import nothing_changed, print_json, say

if TYPE_CHECKING:
    from holdfast.api.home import Home
    from holdfast.api.plan import HomeReport
    from holdfast.model.session import Session

_ids = click.argument(
    "sessions", nargs=-1, required=True, metavar="ID...", shell_complete=session_ids
)


@command(example='holdfast sessions rename 20260325_112518 "Disk clean-up"')
@click.argument("session", metavar="ID", shell_complete=session_ids)
@click.argument("title", metavar="TITLE")
@edit_options
def rename(invocation: Invocation, session: str, title: str, *, dry_run: bool) -> int:
    """Give a session a title; an empty title ("") removes it."""
    wanted = stored_text(title, "The title").strip() or None
    return _each(
        invocation,
        [session],
        lambda home, names: home.rename_session(names[0], wanted),
        f"is now called {wanted!r}" if wanted else "no longer has a title",
        f"would be called {wanted!r}" if wanted else "would no longer have a title",
        dry_run=dry_run,
    )


@command(example="holdfast sessions pin 20260325_112518")
@_ids
@edit_options
def pin(invocation: Invocation, sessions: tuple[str, ...], *, dry_run: bool) -> int:
    """Pin sessions so that no rule and no cap removes them."""
    return _pin(invocation, sessions, pinned=True, dry_run=dry_run)


@command(example="holdfast sessions unpin 20260325_112518")
@_ids
@edit_options
def unpin(invocation: Invocation, sessions: tuple[str, ...], *, dry_run: bool) -> int:
    """Remove the pin from sessions. From then on rules and caps apply to them again."""
    return _pin(invocation, sessions, pinned=False, dry_run=dry_run)


def _pin(invocation: Invocation, ids: Sequence[str], *, pinned: bool, dry_run: bool) -> int:
    def already(home: Home, session: Session) -> str:
        agent = "" if pinned else home.need_store().pins_of(session.id)[1]
        if agent:  # without --dry-run this is refused
            return f"would stay pinned: it is pinned in {agent} itself"
        return "" if session.pinned or pinned else "was not pinned"

    return _each(
        invocation,
        ids,
        lambda home, names: home.pin_sessions(names, pinned),
        "is pinned" if pinned else "is no longer pinned",
        "would be pinned" if pinned else "would no longer be pinned",
        dry_run=dry_run,
        already=already,
    )


@command(example="holdfast sessions end 20260325_112518")
@_ids
@click.option("--reason", default="ended", metavar="WORD", help="Why it ended [ended].")
@edit_options
def end(invocation: Invocation, sessions: tuple[str, ...], *, reason: str, dry_run: bool) -> int:
    """End sessions that their agent left open. From then on retention applies to them.

    A session that a process holds stays open.
    """
    wanted = stored_text(reason, "The reason").strip()
    why = "" if wanted == "ended" else f" ({wanted})"
    return _each(
        invocation,
        sessions,
        lambda home, names: home.end_sessions(names, wanted),
        f"has ended{why}",
        f"would end{why}",
        dry_run=dry_run,
        already=lambda _, session: "had already ended" if session.ended else "",
    )


def _each(
    invocation: Invocation,
    ids: Sequence[str],
    change: Callable[[Home, Sequence[str]], HomeReport],
    did: str,
    would: str,
    *,
    dry_run: bool,
    already: Callable[[Home, Session], str] = lambda _, __: "",
) -> int:
    """Change sessions, in whichever home they are, as one operation in each home. Nothing changes
    before all ids are found."""

    def change_here(here: Invocation, ids: Sequence[str]) -> int:
        home = here.open_home()
        store = home.need_store()
        names = list(dict.fromkeys(map(home.resolve, ids)))
        before = {each: already(home, store.get(each)) for each in names}
        report = None if dry_run else change(home, names)
        done = [store.get(each) for each in names]
        if here.json:
            documents = [each.to_json() for each in done]
            one = {"session": documents[0]} if len(documents) == 1 else {}
            document = {**home_json(here, home), **one, "sessions": documents}
            operation = report.operation if report else None
            print_json({**document, "applied": not dry_run, "operation": operation})
            return 0
        for session in done:
            say(f"Session {session.id} {before[session.id] or (would if dry_run else did)}.")
        if dry_run:
            nothing_changed()
        return 0

    return where_they_are(invocation, ids, change_here)
