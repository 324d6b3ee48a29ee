"""`holdfast demo`: see, preview, prune, undo, archive and restore on a sample home."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.streams import colour_wanted

_MOST_LINES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A command, why it is worth a look, and how the parts of its output begin that are shown."""

    about: str
    words: tuple[str, ...]
    shows: tuple[str, ...] = ("",)


@click.command(cls=Command, example="holdfast demo")
@click.pass_obj
def demo(invocation: Invocation) -> int:
    """Build a sample home in a temporary folder and walk through what Holdfast does with it.

    See, preview, prune, undo, archive, search, restore, count. The commands are run for real, and
    long output is shown shortened; your own homes are not looked at.
    """
    from holdfast.homes.sample import build

    root = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    if not invocation.json:
        _say(f"Building a sample home in {root} …")
    steps = _steps(build(root, invocation.now))
    results = [_run(invocation, root, number, step) for number, step in enumerate(steps, start=1)]
    failed = any(result["exit_code"] for result in results)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"home": str(root), "steps": results})
    else:
        _farewell(root)
    return 1 if failed else 0


def _steps(memorable: str) -> tuple[_Step, ...]:
    from holdfast.homes.sample_sessions import MEMORABLE_WORD

    plan = ("The plan", "items", "It keeps", "It ends")
    return (
        _Step(
            about="See what is there: an agent's sessions, their files, what they cost.",
            words=("status",),
            shows=("holdfast home", "what", "source", "The policy"),
        ),
        _Step(
            about="Two thirds said hardly anything. A dry run shows what would go, and why.",
            words=("sessions", "gc", "--dry-run"),
            shows=plan,
        ),
        _Step(
            about="Prune what is older than 90 days, files included. It goes to the trash.",
            words=("sessions", "prune", "--yes"),
            shows=(*plan, "602", "Freed"),
        ),
        _Step(
            about="Changed your mind? Undo brings back sessions, search, lineage and files.",
            words=("undo",),
        ),
        _Step(
            about="What is worth keeping leaves the store compressed, and is compared first.",
            words=("sessions", "archive", "--source", "telegram", "--older-than", "60d", "--yes"),
            shows=(*plan, "Archived"),
        ),
        _Step(
            about="What is in the archive is still found.",
            words=("sessions", "search", MEMORABLE_WORD, "--archived"),
        ),
        _Step(
            about="And comes back whole.",
            words=("sessions", "restore", memorable),
        ),
        _Step(
            about="The rest left the store, and the totals of what was used stay true.",
            words=("sessions", "stats"),
            shows=("In the store", "Ever used", "source            tokens"),
        ),
    )
