"""What a hook costs an agent: whole processes, beside `true` and a bare interpreter; and a real
agent that calls 30 tools, without a hook, with `true` as its hook, and connected to Holdfast.

    .venv/bin/python bench/hooks.py --files 10000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from plotting import common_options
from trees import Tree

from holdfast.hooks import client

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the lab of the tests runs real agents

_TEXT = """\
## Hooks of connected agents

Whole processes, taking turns, medians of {runs} runs each, in a project of {files:,} files.

{table}

{agent}"""
_CLIENT = Path(client.__file__)
_CALLS = 30


@dataclass
class Contender:
    """One command that gets an input. `before` is done before each run, and not measured."""

    name: str
    command: list[str]
    tool: str = "Read"
    limit: str = ""
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Bench:
    def __init__(self, place: Path, files: int) -> None:
        self.place = place
        self.home, self.cold_home = place / "home", place / "cold"
        self.run = place / "run"
        self.run.mkdir(mode=0o700)
        self.tree = Tree(place / "project", files)
        self.tree.build()
        self.number = 0

    def contenders(self) -> list[Contender]:
        perl = shutil.which("perl") or "perl"
        python = os.path.realpath(sys.executable)
        words = ["claude-code", "open"]
        quick = [perl, str(_CLIENT.with_suffix(".pl")), *words, str(self.home), python]
        plain = [python, "-I", "-S", str(_CLIENT), *words, str(self.home)]
        cold = [perl, str(_CLIENT.with_suffix(".pl")), *words, str(self.cold_home), python]
        edit = self._edit
        return [
            Contender("`true`", ["true"]),
            Contender(
                "bare interpreter, `python -I -S -c pass`", [python, "-I", "-S", "-c", "pass"]
            ),
            Contender("nothing to capture, no helper", cold, limit="25 ms", after=self.end_helper),
            Contender("nothing to capture, helper", quick, limit="5 ms", before=self.warm),
            Contender("the same, without Perl", plain, before=self.warm),
            Contender(
                "checkpoint, 1 file changed, no helper",
                cold,
                "Bash",
                "80 ms",
                edit,
                self.end_helper,
            ),
            Contender(
                "checkpoint, 1 file changed, helper",
                quick,
                "Bash",
                "40 ms",
                lambda: (self.warm(), edit())[1],
            ),
        ]

    def _edit(self) -> None:
        self.tree.edit()

    def warm(self) -> None:
        """A helper that has answered once."""
        if not self.sockets():
            self.once(
                Contender(
                    "",
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        str(_CLIENT),
                        "claude-code",
                        "open",
                        str(self.home),
                    ],
                    "Bash",
                )
            )
            until = time.monotonic() + 10
            while not self.sockets() and time.monotonic() < until:
                time.sleep(0.02)
            time.sleep(0.5)

    def end_helper(self) -> None:
        from tests.ending_helpers import end_helper, helper_of

        until = time.monotonic() + 3
        while helper_of(self.run / "holdfast") is None and time.monotonic() < until:
            time.sleep(0.01)
        end_helper(self.run / "holdfast")
        for path in self.sockets():
            path.unlink(missing_ok=True)

    def sockets(self) -> list[Path]:
        return list((self.run / "holdfast").glob("*.sock"))

    def once(self, entry: Contender) -> float:
        self.number += 1
        said = {
            "session_id": "bench",
            "cwd": str(self.tree.root),
            "hook_event_name": "PreToolUse",
            "tool_name": entry.tool,
            "tool_input": {"command": f"step {self.number}"},
        }
        raw = json.dumps(said, separators=(",", ":")).encode()
        environ = {**os.environ, "XDG_RUNTIME_DIR": str(self.run)}
        started = time.perf_counter()
        subprocess.run(entry.command, input=raw, check=True, capture_output=True, env=environ)
        return time.perf_counter() - started

    def measure(self, entries: list[Contender], runs: int) -> None:
        """One after another, each `runs` times: a helper is there for some and not for others."""
        for entry in entries:
            for number in range(-2, runs):
                entry.before()
                seconds = self.once(entry)
                entry.after()
                if number >= 0:
                    entry.seconds.append(seconds)


def table(entries: list[Contender]) -> str:
    lines = ["| hook | median | least | at most |", "|---|---:|---:|---:|"]
    for each in entries:
        least = min(each.seconds) * 1000
        lines.append(
            f"| {each.name} | {each.median * 1000:.1f} ms | {least:.1f} ms | {each.limit} |"
        )
    return "\n".join(lines)


def agent(runs: int) -> str:
    """30 calls of a shell by the real Claude Code, where it can be installed."""
    from tests.compat.agents.connected import Connected
    from tests.compat.agents.installed import NotInstallableError
    from tests.compat.agents.lab import Claude
    from tests.compat.agents.model_server import serving

    def run(how: str) -> float:
        with tempfile.TemporaryDirectory() as folder, serving() as model:
            lab = Claude(Path(folder).resolve() / "place", model)
            lab.set_up()
            connected = Connected(lab)
            try:
                if how == "holdfast":
                    connected.connect()
                    connected.say("Do this:\n" + connected.shell("true"))  # the helper is there
                elif how == "true":
                    hook = [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]
                    path = lab.user / ".claude" / "settings.json"
                    said = json.loads(path.read_text())
                    path.write_text(
                        json.dumps(
                            {**said, "hooks": {"PreToolUse": hook, "UserPromptSubmit": hook}}
                        )
                    )
                steps = [connected.shell(f"echo {number} > file") for number in range(_CALLS)]
                started = time.perf_counter()
                connected.say("Do this:\n" + "\n".join(steps))
                return time.perf_counter() - started
            finally:
                connected.close()

    try:
        found: dict[str, list[float]] = {"none": [], "true": [], "holdfast": []}
        for _ in range(runs):
            for how, seconds in found.items():
                seconds.append(run(how))
    except NotInstallableError as error:
        return f"The real agent was not tried: {error}.\n"
    base = statistics.median(found["none"])
    rows = "".join(
        f"| {how} | {taken:.2f} s | {taken / base:.3f} x |\n"
        for how, taken in ((how, statistics.median(each)) for how, each in found.items())
    )
    head = f"Claude Code, {_CALLS} shell commands that each change a file:\n\n"
    return f"{head}| hook | median | ratio |\n|---|---:|---:|\n{rows}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--no-agent", action="store_true", help="leave out the real agent")
    common_options(parser)
    arguments = parser.parse_args()
    runs = 3 if arguments.quick else arguments.runs
    files = 200 if arguments.quick else arguments.files
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder).resolve(), files)
        entries = bench.contenders()
        bench.measure(entries, runs)
        bench.end_helper()
    said = "" if arguments.no_agent or arguments.quick else agent(5)
    print(_TEXT.format(runs=runs, files=files, table=table(entries), agent=said))


if __name__ == "__main__":
    main()
