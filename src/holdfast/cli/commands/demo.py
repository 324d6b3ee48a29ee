"""`holdfast demo`: list, preview, prune, undo, archive and restore on a sample home; and go back to
a checkpoint in a sample project."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation, quoted
from holdfast.cli.output import print_json, suggest
from holdfast.cli.streams import colour_wanted
from holdfast.errors import UsageError
from holdfast.value import dataclass

_MOST_LINES = 6
_LEFT_OUT = "…"
_PROGRAM = "shop.py"
_NOTES = "notes.md"
#: A command suggested by the output, on a line of its own.
_SUGGESTED = re.compile(r"^((?:\x1b\[[0-9;]*m)? +(?:\x1b\[[0-9;]*m)?)holdfast(?= )", re.MULTILINE)
#: Placeholder in a command for the latest checkpoint.
_LATEST = "{checkpoint}"


@dataclass(frozen=True, slots=True)
class _Step:
    """A command, its explanation, and a pattern: the beginning of the parts of its output that are
    shown. Before some steps an agent works in the project."""

    about: str
    words: tuple[str, ...]
    shows: str = ""
    enters_project: bool = False
    agent_works: bool = False


@command(example="holdfast demo\nholdfast demo ~/sample")
@click.argument("folder", required=False)
def demo(invocation: Invocation, folder: str | None) -> int:
    """Build a sample home in a temporary folder and walk through what Holdfast does with it.

    It shows, previews, prunes, undoes, archives, searches, restores and counts sessions; it takes a
    checkpoint of a sample project and goes back to it. The commands really run, and long output is
    shortened. Your own homes are not touched.

    With FOLDER, which must not exist yet, it only builds the sample home there, for you to play
    with. Missing folders above it are created.
    """
    from holdfast.cli.demo_home import build

    if folder is not None:
        return _build_only(invocation, Path(folder).absolute())
    root = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    if not invocation.json:
        _say(f"Building a sample home in {root} …")
    steps = _steps(build(root, invocation.now))
    project = _build_project(root)
    results = [
        _run(invocation, root, project, number, step) for number, step in enumerate(steps, start=1)
    ]
    failed = any(result["exit_code"] for result in results)
    if invocation.json:
        print_json({"home": str(root), "project": str(project), "steps": results})
    else:
        _farewell(root, project)
    return 1 if failed else 0


def _build_only(invocation: Invocation, root: Path) -> int:
    from holdfast.cli.demo_home import build

    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700)
    except FileExistsError:
        raise UsageError(
            f"{root} already exists.", hint="Name a folder that does not exist yet."
        ) from None
    except OSError as error:
        raise UsageError(
            f"Cannot create {root}: {error.strerror}.",
            hint="Name a folder in a place where you may write.",
        ) from None
    build(root, invocation.now)
    if invocation.json:
        print_json({"home": str(root), "project": None, "steps": []})
        return 0
    if invocation.quiet:
        return 0
    export = f"export HOLDFAST_HOME={quoted(root)}"
    suggest(f"Built a sample home in {root}.", "To use it in this shell:", export)
    return 0


def _steps(memorable: str) -> tuple[_Step, ...]:
    from holdfast.cli.demo_home import MEMORABLE_WORD

    plan = "The plan|items|It keeps|[0-9,]+ removed"
    return (
        _Step(
            "See what an agent left behind, and what it costs.",
            ("status",),
            shows="holdfast home|what|source|The policy",
        ),
        _Step(
            "Many sessions hardly contain anything. Preview which would be removed, and why.",
            ("sessions", "gc", "--dry-run"),
            shows="The plan|items",
        ),
        _Step(
            "Prune what was idle for 90 days, files too. It goes to the trash.",
            ("sessions", "prune", "--yes"),
            shows=plan,
        ),
        _Step(
            "Changed your mind? Undo brings back sessions, lineage, search and files.", ("undo",)
        ),
        _Step(
            "Some agents crashed. Preview which of their sessions maintenance would end.",
            ("maintain", "--dry-run"),
            shows="Abandoned",
        ),
        _Step(
            "Or archive old ones: each bundle is read back before its session is removed.",
            ("sessions", "archive", "--source", "telegram", "--older-than", "60d", "--yes"),
            shows="The plan|[0-9,]+ removed",
        ),
        _Step(
            "Archived sessions can still be searched.",
            ("sessions", "search", MEMORABLE_WORD, "--archived"),
        ),
        _Step("And restored in full.", ("sessions", "restore", memorable)),
        _Step(
            "Others were removed, but their usage still counts.",
            ("sessions", "stats"),
            shows="In this home|All-time|source +tokens",
        ),
        _Step(
            "Another job: before an agent changes files, take a checkpoint of the project.",
            ("checkpoints", "take", "--reason", "before the agent"),
            enters_project=True,
        ),
        _Step(
            "The agent rewrote one file and deleted another. What did it do?",
            ("checkpoints", "diff", "--stat"),
            agent_works=True,
        ),
        _Step(
            "Go back, exactly. Even that can be undone.",
            ("checkpoints", "restore", _LATEST, "--yes"),
            shows="Restore|Modify|[0-9,]+ written",
        ),
    )


def _build_project(root: Path) -> Path:
    """A small project next to the home: the home itself never gets checkpoints."""
    project = root.with_name(f"{root.name}-project")
    project.mkdir(mode=0o700)
    (project / _PROGRAM).write_text("def total(prices):\n    return sum(prices)\n")
    (project / _NOTES).write_text("Ask about the tax.\n")
    return project


def _agent_works(project: Path) -> None:
    (project / _PROGRAM).write_text("def total(prices):\n    return 0  # done\n")
    (project / _NOTES).unlink()


def _latest_checkpoint(root: Path, project: Path) -> str:
    words = ("--home", str(root), "--json", "checkpoints", "list", str(project))
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        check=False,
        capture_output=True,
        env=_environment(),
    )
    found = json.loads(done.stdout or "{}").get("checkpoints")
    return str(found[0]["id"])[:12] if found else ""


def _run(
    invocation: Invocation, root: Path, project: Path, number: int, step: _Step
) -> dict[str, Any]:
    """Run a command as a user would, in its own process and in the project."""
    words = step.words
    if _LATEST in words:
        latest = _latest_checkpoint(root, project)
        words = tuple(latest if word == _LATEST else word for word in words)
    if step.agent_works:
        _agent_works(project)
    flags = ["--home", str(root), *(["--json"] if invocation.json else [])]
    if not invocation.json:
        _say()
        _say(f"{number}. {step.about}", bold=True)
        if step.enters_project:
            _say(f"$ cd {quoted(project)}", fg="green")
        _say(f"$ {shlex.join([program(), *flags, *words])}", fg="green")
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *flags, *words],
        check=False,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if invocation.json else None,
        encoding=sys.stdout.encoding,
        errors="replace",
        env=_environment(),
    )
    if not invocation.json:
        said = done.stdout.rstrip() if done.returncode else shortened(done.stdout, step.shows)
        _say(_SUGGESTED.sub(lambda found: found[1] + program(), said))
    return {"command": shlex.join(words), "about": step.about, "exit_code": done.returncode}


def _environment() -> dict[str, str]:
    """The sample uses the defaults, whatever the settings of this shell; its output is formatted
    for this terminal, although it is captured first."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    if sys.stdout.isatty():
        environment["COLUMNS"] = str(shutil.get_terminal_size().columns)
        if colour_wanted() is None:
            environment["FORCE_COLOR"] = "1"
    return environment


def shortened(output: str, shows: str) -> str:
    """The parts of an output that begin like this, each cut to its first lines; … for everything
    else."""
    lines: list[str] = []
    for part in output.strip("\n").split("\n\n"):
        part_lines = part.splitlines() if re.match(shows, click.unstyle(part)) else []
        if part_lines:
            lines += ["", *part_lines[:_MOST_LINES]] if lines else part_lines[:_MOST_LINES]
        if len(part_lines) not in range(1, _MOST_LINES + 1) and lines[-1:] != [_LEFT_OUT]:
            lines.append(_LEFT_OUT)
    return "\n".join(lines)


def program() -> str:
    """How this user starts Holdfast: by name, or by path if it is not on the PATH, as after `make
    demo`."""
    if shutil.which("holdfast") is not None:
        return "holdfast"
    script = Path(sys.executable).with_name("holdfast")
    if not script.is_file():
        return f"{shlex.quote(sys.executable)} -m holdfast"
    return quoted(script)


def _farewell(root: Path, project: Path) -> None:
    home = quoted(root)
    _say()
    _say("That was all.", bold=True)
    _say(f"The sample home and project stay for you to play with: {root}")
    _say(f"  {program()} --home {home} sessions prune --source cron --keep-last 10")
    _say("Remove them when you are done:")
    _say(f"  rm -r {home} {quoted(project)}")
    if program() != "holdfast":
        folder = Path(sys.executable).parent
        _say("To type just `holdfast` in this shell:")
        _say(f'  export PATH="{folder}:$PATH"')


def _say(text: str = "", *, bold: bool = False, fg: str | None = None) -> None:
    """Flushed at once, because a child writes to the same place next."""
    click.secho(text, bold=bold, fg=fg, color=colour_wanted())
