"""`holdfast sessions rename`, `pin` and `end`: what a person can change about a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.homes import home_json
from holdfast.cli.invocation import Invocation, stored_text
from holdfast.cli.output import print_json, say

if TYPE_CHECKING:
    from holdfast.api.home import Home
    from holdfast.model.session import Session


@click.command(
    "rename", cls=Command, example='holdfast sessions rename 20260325_112518 "Disk clean-up"'
)
@click.argument("session", metavar="ID")
@click.argument("title", metavar="TITLE")
@click.pass_obj
def rename(invocation: Invocation, session: str, title: str) -> int:
    """Give a session a title; an empty title ("") removes it."""
    wanted = stored_text(title, "The title").strip() or None
    home = invocation.home_of(session, surely=True)
    changed = home.need_store().rename(home.resolve(session), wanted)
    named = f"is now called {changed.title!r}" if changed.title else "has no title now"
    return _tell(invocation, home, changed, named)


@click.command("pin", cls=Command, example="holdfast sessions pin 20260325_112518")
@click.argument("session", metavar="ID")
@click.option("--off", is_flag=True, help="Remove the pin.")
@click.pass_obj
def pin(invocation: Invocation, session: str, *, off: bool) -> int:
    """Pin a session: no rule and no cap ever removes it."""
    home = invocation.home_of(session, surely=True)
    changed = home.need_store().pin(home.resolve(session), not off)
    return _tell(invocation, home, changed, "is no longer pinned" if off else "is pinned")


@click.command("end", cls=Command, example="holdfast sessions end 20260325_112518")
@click.argument("session", metavar="ID")
@click.option("--reason", default="ended", metavar="WORD", help="Why it ended [ended].")
@click.pass_obj
def end(invocation: Invocation, session: str, *, reason: str) -> int:
    """End a session that its agent left open. From then on retention applies to it.

    A session that a process holds stays open.
    """
    wanted = stored_text(reason, "The reason").strip()
    home = invocation.home_of(session, surely=True)
    changed = home.end_session(session, wanted)
    why = "" if changed.end_reason == "ended" else f" ({changed.end_reason})"
    return _tell(invocation, home, changed, f"has ended{why}")


def _tell(invocation: Invocation, home: Home, session: Session, what: str) -> int:
    if invocation.json:
        print_json({**home_json(invocation, home), "session": session.to_json()})
    else:
        say(f"Session {session.id} {what}.")
    return 0
