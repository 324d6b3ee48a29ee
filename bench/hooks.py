"""What a hook costs an agent: whole processes, beside `true` and a bare interpreter; and a real
agent that calls 30 tools, without a hook, with `true` as its hook, and connected to Holdfast.

    .venv/bin/python bench/hooks.py --files 10000
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
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

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the lab of the tests runs real agents

_TEXT = """\
## Hooks of connected agents

Whole processes, one after another in each of {runs} rounds, medians, in a project of {files:,}
files. Holdfast is laid out as pip installs it. CPU is what the process and those it waited for
used: where other programs run, it says more than the clock. A helper is a process of its own, and
not in it.

{table}

{agent}"""
_CALLS = 30
_STEPBACK = (
    "from pathlib import Path; from stepback.engine import Engine; Engine(Path()).checkpoint()"
)


@dataclass
class Contender:
    """One command that gets an input. `before` and `after` are not measured."""

    name: str
    command: list[str]
    tool: str = "Read"
    limit: str = ""
    run: str = "run"
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    root: Path | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Bench:
    def __init__(self, place: Path, files: int) -> None:
        self.place = place
        for name in ("run", "cold"):
            (place / name).mkdir(mode=0o700)
        self.tree = Tree(place / "project", files)
        self.tree.build()
        self.client = _installed(place / "site")
        self.python = os.path.realpath(sys.executable)
        self.number = 0
        places = {"GIT_DIR": str(place / "git"), "GIT_WORK_TREE": str(self.tree.root)}
        self.git = {**os.environ, **places}

    def contenders(self, stepback: str | None) -> list[Contender]:
        perl = shutil.which("perl") or "perl"
        quick = str(self.client.with_suffix(".pl"))
        warm = [perl, quick, "claude-code", "open", str(self.place / "home"), self.python]
        cold = [perl, quick, "claude-code", "open", str(self.place / "cold home"), self.python]
        edit, end = self.tree.edit, self.end_helper
        found = [
            Contender("`true`", ["true"]),
            Contender(
                "bare interpreter, `python -I -S -c pass`", [self.python, "-I", "-S", "-c", "pass"]
            ),
            Contender("nothing to capture, no helper", cold, "Read", "25 ms", "cold", after=end),
            Contender("nothing to capture, helper", warm, limit="5 ms"),
            Contender("the same, without Perl", self.plain("home")),
            Contender("`git status`", ["git", "status", "--short"], before=edit),
            Contender("`git add --all`", ["git", "add", "--all"], before=edit),
            Contender("checkpoint, no helper", cold, "Bash", "80 ms", "cold", edit, end),
            Contender("checkpoint, helper", warm, "Bash", "40 ms", before=edit),
        ]
        if stepback:  # it writes into the project
            other = self.tree.copy(self.place / "other", 1)
            subprocess.run(["git", "init", "-q", str(other.root)], check=True)
            words = [stepback, "-c", _STEPBACK]
            found.append(Contender("stepback 0.2, a checkpoint", words, before=other.edit))
            found[-1].root = other.root
        return found

    def plain(self, home: str) -> list[str]:
        words = ["claude-code", "open", str(self.place / home)]
        return [self.python, "-I", "-S", str(self.client), *words]

    def prepare(self) -> None:
        """A repository with everything in it for git; and a helper that has seen the project."""
        subprocess.run(["git", "init", "-q"], cwd=self.tree.root, env=self.git, check=True)
        subprocess.run(["git", "add", "--all"], cwd=self.tree.root, env=self.git, check=True)
        self.once(Contender("", self.plain("cold home"), "Bash", run="cold"))
        self.end_helper()
        for _ in range(4):
            self.once(Contender("", self.plain("home"), "Bash"))
            time.sleep(2.0)

    def end_helper(self, run: str = "cold") -> None:
        from tests.ending_helpers import end_helper, helper_of

        folder = self.place / run / "holdfast"
        until = time.monotonic() + 10
        while helper_of(folder) is None and time.monotonic() < until:
            time.sleep(0.01)
        end_helper(folder)
        for path in folder.glob("*.sock"):
            path.unlink(missing_ok=True)

    def once(self, entry: Contender) -> None:
        self.number += 1
        said = {
            "session_id": "bench",
            "cwd": str(self.tree.root),
            "hook_event_name": "PreToolUse",
            "tool_name": entry.tool,
            "tool_input": {"command": f"step {self.number}"},
        }
        raw = json.dumps(said, separators=(",", ":")).encode()
        environ = self.git if entry.command[0] == "git" else dict(os.environ)
        environ = environ | {"XDG_RUNTIME_DIR": str(self.place / entry.run)}
        started = time.perf_counter()
        process = subprocess.Popen(
            entry.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=entry.root or self.tree.root,
        )
        if process.stdin is None or process.stdout is None:
            raise AssertionError("it was started without pipes")
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(raw)
            process.stdin.close()
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode:
            raise RuntimeError(f"{entry.command} ended with {process.returncode}")
        entry.seconds.append(time.perf_counter() - started)
        entry.cpu.append(used.ru_utime + used.ru_stime)

    def measure(self, entries: list[Contender], runs: int) -> None:
        for _ in range(runs + 1):
            for entry in entries:
                entry.before()
                self.once(entry)
                entry.after()
        for entry in entries:
            del entry.seconds[0], entry.cpu[0]


def _installed(site: Path) -> Path:
    """Holdfast as it is installed, and what its helper loads; gives the client. A helper of the
    code in `src` would not find the library for watching."""
    shutil.copytree(ROOT / "src" / "holdfast", site / "holdfast")
    with contextlib.suppress(ImportError):
        import inotify_simple

        shutil.copy(inotify_simple.__file__, site)
    compileall.compile_dir(site, quiet=2)
    return site / "holdfast" / "hooks" / "client.py"


def table(entries: list[Contender]) -> str:
    lines = [
        "| hook | median | least | CPU | times bare Python's CPU | at most |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    bare = statistics.median(entries[1].cpu)
    for each in entries:
        least, cpu = min(each.seconds) * 1000, statistics.median(each.cpu)
        lines.append(
            f"| {each.name} | {each.median * 1000:.1f} ms | {least:.1f} ms | {cpu * 1000:.1f} ms"
            f" | {cpu / bare:.1f} | {each.limit} |"
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
    parser.add_argument("--stepback", metavar="PYTHON", help="a Python that has stepback 0.2")
    parser.add_argument("--no-agent", action="store_true", help="leave out the real agent")
    common_options(parser)
    arguments = parser.parse_args()
    runs = 3 if arguments.quick else arguments.runs
    files = 200 if arguments.quick else arguments.files
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder).resolve(), files)
        entries = bench.contenders(arguments.stepback)
        bench.prepare()
        bench.measure(entries, runs)
        bench.end_helper("run")
    said = "" if arguments.no_agent or arguments.quick else agent(3)
    print(_TEXT.format(runs=runs, files=files, table=table(entries), agent=said))


if __name__ == "__main__":
    main()
