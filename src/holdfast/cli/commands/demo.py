"""`holdfast demo`: see, preview, prune and undo on a sample home."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation

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
        click.echo(f"Building a sample home in {root} …")
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
        click.echo()
        click.secho(f"{number}. {about}", bold=True)
        click.secho(f"$ {shown}", fg="green")
        click.echo()
        sys.stdout.flush()
    command = [sys.executable, "-m", "holdfast", *flags, *words]
    done = subprocess.run(command, check=False, capture_output=invocation.json)
    return {"command": shlex.join(words), "about": about, "exit_code": done.returncode}


def _farewell(root: Path) -> None:
    quoted = shlex.quote(str(root))
    click.echo()
    click.secho("That was all of it.", bold=True)
    click.echo(f"The sample home stays for you to play with: {root}")
    click.echo(f"  holdfast --home {quoted} sessions prune --source cron --keep-last 10")
    click.echo("Remove it when you are done:")
    click.echo(f"  rm -r {quoted}")
