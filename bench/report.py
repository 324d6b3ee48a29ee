"""Run all benchmarks and write `docs/benchmarks.md` with its plots.

Every script prints its section in Markdown, and keeps what is to be drawn where `--json` says. This
one only puts them together. With `--quick` each does the least that shows it works, in a minute,
and nothing is written: such figures say nothing.

    .venv/bin/python bench/report.py            about half an hour, on a machine with nothing else
    .venv/bin/python bench/report.py --quick    a minute
    .venv/bin/python bench/report.py --only sessions
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from baselines import plotting_python
from machine import facts

_HERE = Path(__file__).parent
_DOCS = _HERE.parent / "docs"
_PAGE = _DOCS / "benchmarks.md"
_PLOTS = _DOCS / "plots"
_HEAD = """\
# Benchmarks

Written by `make bench`, which installs its baselines into `.bench`, generates its data (the same
on every run), and measures everybody side by side in one run. Figures are compared as ratios:
milliseconds say more about the machine than about Holdfast. None of it is a test; a busy machine
fails nobody's build. `make bench-quick` shows in a minute that it all works.
"""
#: The sections in their order.
SCRIPTS = ("startup", "sessions", "guards", "prune", "hermes", "checkpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one script said, and the names and titles of its plots."""

    text: str
    plots: list[tuple[str, str]]


def run(script: str, points: Path, options: list[str]) -> Section:
    command = [sys.executable, str(_HERE / f"{script}.py"), "--json", str(points), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench/{script}.py failed.")
    drawn = json.loads(points.read_text()) if points.exists() else []
    return Section(text=done.stdout, plots=[(each["name"], each["title"]) for each in drawn])


def page(sections: list[Section]) -> str:
    machine = "\n".join(f"| {name} | {value} |" for name, value in facts())
    parts = [_HEAD, f"| measured on | |\n|---|---|\n{machine}\n"]
    for section in sections:
        heading, _, rest = section.text.strip().partition("\n")
        images = "".join(f"\n![{title}](plots/{name}.svg)\n" for name, title in section.plots)
        parts.append(f"{heading}\n{images}{rest}\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="see that it works; write nothing")
    parser.add_argument("--only", choices=SCRIPTS, action="append", help="one of them, printed")
    arguments = parser.parse_args()
    options = ["--quick"] if arguments.quick else []
    sections = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        files = []
        for script in arguments.only or SCRIPTS:
            print(f"bench/{script}.py …", file=sys.stderr, flush=True)
            points = Path(scratch) / f"{script}.json"
            sections.append(run(script, points, options))
            files += [str(points)] if points.exists() else []
        if arguments.quick or arguments.only:
            print(page(sections))
            return
        draw = [str(plotting_python()), str(_HERE / "draw.py"), str(_PLOTS), *files]
        subprocess.run(draw, check=True, stdout=subprocess.DEVNULL)
        _PAGE.write_text(page(sections))
    print(f"Wrote {_PAGE.relative_to(_DOCS.parent)} and {len(files)} files of plots.")


if __name__ == "__main__":
    main()
