"""`holdfast sessions rename`, `pin` and `end`: what a person says of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.session_options import need_store, resolved, stored_text

if TYPE_CHECKING:
    from holdfast.model.session import Session


@click.command(
    "rename", cls=Command, example='holdfast sessions rename 20260325_112518 "Disk clean-up"'
)
@click.argument("session", metavar="ID")
@click.argument("title", metavar="TITLE")
@click.pass_obj
def rename(invocation: Invocation, session: str, title: str) -> int:
    """Give a session a title; an empty one ("") takes it away."""
    wanted = stored_text(title, "The title").strip() or None
    store = need_store(invocation)
    changed = store.rename(resolved(invocation, store, session), wanted)
    named = f"is now called {changed.title!r}" if changed.title else "has no title now"
    return _tell(invocation, changed, named)


@click.command("pin", cls=Command, example="holdfast sessions pin 20260325_112518")
@click.argument("session", metavar="ID")
@click.option("--off", is_flag=True, help="Take the pin away.")
@click.pass_obj
def pin(invocation: Invocation, session: str, *, off: bool) -> int:
    """Pin a session: no rule and no cap ever removes it."""
    store = need_store(invocation)
    changed = store.pin(resolved(invocation, store, session), not off)
    return _tell(invocation, changed, "is no longer pinned" if off else "is pinned")


@click.command("end", cls=Command, example="holdfast sessions end 20260325_112518")
@click.argument("session", metavar="ID")
@click.option("--reason", default="ended", metavar="WORD", help="Why it ended [ended].")
@click.pass_obj
def end(invocation: Invocation, session: str, *, reason: str) -> int:
    """Give a session its end, when its agent never will. From then on retention counts for it.

    One that a process holds is left alone.
    """
    from holdfast.services.endings import end_by_hand

    wanted = stored_text(reason, "The reason").strip()
    home, _ = invocation.open_home()
    store = need_store(invocation)
    changed = end_by_hand(home, resolved(invocation, store, session), wanted, at=invocation.now)
    return _tell(invocation, changed, f"has ended ({changed.end_reason})")


def _tell(invocation: Invocation, session: Session, what: str) -> int:
    from holdfast.cli.output import print_json, say

    if invocation.json:
        print_json({"session": session.to_json()})
    else:
        say(f"Session {session.id} {what}.")
    return 0
