"""Run all benchmarks and write `docs/benchmarks.md` with its plots.

Every script prints its section in Markdown, and keeps what is to be drawn, and what was wanted of
it, where `--json` says. This one puts them together. What was measured is kept in `.bench/results`,
so that one of them can be repeated without the others. A script that fails is told at the end, and
its section says so; the others are written. With `--quick` each does the least that shows it works,
in two minutes, and nothing is written: such figures say nothing.

    .venv/bin/python bench/report.py            about 25 minutes, on a machine with nothing else
    .venv/bin/python bench/report.py --quick    two minutes
    .venv/bin/python bench/report.py --only sessions
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import wanted
from baselines import plotting_python
from machine import facts
from plotting import load

_HERE = Path(__file__).parent
_DOCS = _HERE.parent / "docs"
_PAGE = _DOCS / "benchmarks.md"
_PLOTS = _DOCS / "plots"
_RESULTS = _HERE.parent / ".bench" / "results"
_HEAD = """\
# Benchmarks

Written by `make bench`, which installs its baselines into `.bench`, generates its data (the same
on every run), and measures everybody side by side in one run. Figures are compared as ratios:
milliseconds say more about the machine than about Holdfast. None of it is a test; a busy machine
fails nobody's build. `make bench-quick` shows in two minutes that it all works.
"""
_WANTED = """\
## What was wanted

The sections below say how each was measured. [Floors](floors.md) has what the machine itself takes
for the same work, and where the rest goes.
"""
#: The sections in their order.
SCRIPTS = (
    *("startup", "hooks", "sessions", "guards", "prune", "archives", "postgres", "hermes"),
    *("reach", "checkpoints", "remotes", "web"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one script said, the names and titles of its plots, and what was wanted of it."""

    text: str
    plots: list[tuple[str, str]]
    found: wanted.Found


def measure(script: str, folder: Path, options: list[str]) -> bool:
    """Run one script, and keep what it said and wants drawn. Whether it came to its end."""
    points = folder / f"{script}.json"
    for old in folder.glob(f"{script}.*"):
        old.unlink()
    command = [sys.executable, str(_HERE / f"{script}.py"), "--json", str(points), *options]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    text = done.stdout
    if done.returncode:
        text = f"{text or f'## {script.capitalize()}'}\n\n**bench/{script}.py failed here.**\n"
    (folder / f"{script}.md").write_text(text)
    print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return not done.returncode


def section(script: str, folder: Path) -> Section | None:
    """What was kept of a script; None when it has not been run."""
    text, points = folder / f"{script}.md", folder / f"{script}.json"
    if not text.exists():
        return None
    drawn = load(points) if points.exists() else []
    return Section(
        text=text.read_text(),
        plots=[(each.name, each.title) for each in drawn],
        found=wanted.load(points),
    )


def page(sections: list[Section], machine: str) -> str:
    found = {key: value for each in sections for key, value in each.found.items()}
    rows = "\n".join(wanted.table(found))
    parts = [_HEAD, f"| measured on | |\n|---|---|\n{machine}\n", f"{_WANTED}\n{rows}\n"]
    for each in sections:
        heading, _, rest = each.text.strip().partition("\n")
        images = "".join(f"\n![{title}](plots/{name}.svg)\n" for name, title in each.plots)
        parts.append(f"{heading}\n{images}{rest}\n")
    return "\n".join(parts)


def draw(folder: Path) -> None:
    files = sorted(str(path) for path in folder.glob("*.json"))
    command = [str(plotting_python()), str(_HERE / "draw.py"), str(_PLOTS), *files]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="see that it works; write nothing")
    parser.add_argument("--only", choices=SCRIPTS, action="append", help="one of them")
    arguments = parser.parse_args()
    machine = "\n".join(f"| {name} | {value} |" for name, value in facts())
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        folder = Path(scratch) if arguments.quick else _RESULTS
        folder.mkdir(parents=True, exist_ok=True)
        failed = []
        for script in arguments.only or SCRIPTS:
            print(f"bench/{script}.py …", file=sys.stderr, flush=True)
            if not measure(script, folder, ["--quick"] if arguments.quick else []):
                failed.append(script)
        found = [each for script in SCRIPTS if (each := section(script, folder)) is not None]
        if arguments.quick:
            print(page(found, machine))
        else:
            _PAGE.write_text(page(found, machine))
            draw(_RESULTS)
            print(f"Wrote {_PAGE.relative_to(_DOCS.parent)} and the plots beside it.")
    if failed:
        raise SystemExit("\n".join(f"bench/{script}.py failed." for script in failed))


if __name__ == "__main__":
    main()
