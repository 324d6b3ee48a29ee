"""`holdfast demo`: see, preview, prune and undo on a sample home."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.streams import colour_wanted

_STEPS = (
    ("See what is there.", ("status",)),
    ("Preview: what would go, and why. Nothing is touched.", ("sessions", "prune", "--dry-run")),
    ("Prune. What goes is moved to the trash.", ("sessions", "prune", "--yes")),
    ("Every removal is in the log.", ("log",)),
    ("Undo: everything is back in its place.", ("undo",)),
    ("As it was before.", ("status",)),
)


@click.command(cls=Command, example="holdfast demo")
@click.pass_obj
def demo(invocation: Invocation) -> int:
    """Build a sample home in a temporary folder and walk through see, preview, prune, undo.

    The commands are run for real; your own homes are not looked at.
    """
    from holdfast.homes.sample import build

    root = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    if not invocation.json:
        _say(f"Building a sample home in {root} …")
    build(root, invocation.now)
    results = [_run(invocation, root, number, *step) for number, step in enumerate(_STEPS, start=1)]
    failed = any(result["exit_code"] for result in results)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"home": str(root), "steps": results})
    else:
        _farewell(root)
    return 1 if failed else 0


def _run(
    invocation: Invocation, root: Path, number: int, about: str, words: tuple[str, ...]
) -> dict[str, Any]:
    """Run a command as a user would, in a process of its own."""
    flags = ["--home", str(root), *(["--json"] if invocation.json else [])]
    if not invocation.json:
        shown = shlex.join(["holdfast", *flags, *words])
        _say()
        _say(f"{number}. {about}", bold=True)
        _say(f"$ {shown}", fg="green")
        _say()
    command = [sys.executable, "-m", "holdfast", *flags, *words]
    # The sample is shown by the defaults, whatever the settings of this shell are.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    done = subprocess.run(command, check=False, capture_output=invocation.json, env=environment)
    return {"command": shlex.join(words), "about": about, "exit_code": done.returncode}


def _farewell(root: Path) -> None:
    quoted = shlex.quote(str(root))
    _say()
    _say("That was all of it.", bold=True)
    _say(f"The sample home stays for you to play with: {root}")
    _say(f"  holdfast --home {quoted} sessions prune --source cron --keep-last 10")
    _say("Remove it when you are done:")
    _say(f"  rm -r {quoted}")


def _say(text: str = "", *, bold: bool = False, fg: str | None = None) -> None:
    """At once, because a child writes to the same place next."""
    click.secho(text, bold=bold, fg=fg, color=colour_wanted())
