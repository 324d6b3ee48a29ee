"""Getting rid of sessions beside Hermes, on the same data in one run.

Both homes hold the same sessions, each with a `session_{id}.json`. They are built once and copied
for every round. Whole processes are timed, the start of the interpreter included: `holdfast
sessions prune --yes` on one side, Hermes's own `prune_sessions` with files and its `vacuum` on the
other. Rounds alternate; Holdfast has three, and Hermes one, because that takes minutes.

    .venv/bin/python bench/prune.py                 minutes, 5 GB
    .venv/bin/python bench/prune.py --only large    200,000 sessions beside a writer, no Hermes
    .venv/bin/python bench/prune.py --quick         whether it works
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from baselines import HERMES, hermes_python
from contest import WORKERS
from corpus import OLD_DAYS
from plotting import Plot, common_options, save
from wanted import ROWS

_HOLDFAST = (sys.executable, "-m", "holdfast")
_ROUNDS = 3
_PER_SESSION, _LARGE_EACH = 20, 10
_MB = 1e6
#: Of ages up to 400 days, three quarters are above this.
_LARGE_AGE = "100d"
_ALONE_SECONDS = 5
_QUICK, _QUICK_LARGE = 100, 1_000
#: Which parts of all sessions are pruned as well, to see how it grows.
_SHARES = (5,)
_TEXT = """\
## Getting rid of sessions

{count:,} sessions of {each} messages of about 1.4 kB, each with its `session_{{id}}.json`, in a
home of either kind; all of them are old enough to go. Whole processes, the start of the
interpreter included: `holdfast sessions prune --yes` beside Hermes {hermes}'s own
`prune_sessions` with files and its `vacuum`. Every round works on a fresh copy; medians of
{rounds} rounds, and one round for Hermes, which takes a minute. Hermes looks for files by another
name than the one it gives them, so each `session_{{id}}.json` stays.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process: how long it took, of that on the processor, the most memory it had, what it
    said."""

    seconds: float
    processor: float
    megabytes: float
    out: str


def run(*words: object, **environment: object) -> Run:
    """Run a command to its end; a failure ends the benchmark."""
    set_to = os.environ | {name: str(value) for name, value in environment.items()}
    command = [str(word) for word in words]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complaints:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=said, stderr=complaints, env=set_to)
        # Its own usage, not that of the largest child so far.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        for stream in (said, complaints):
            stream.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{complaints.read()}")
        unit = 1 if sys.platform == "darwin" else 1024
        return Run(
            seconds=seconds,
            processor=usage.ru_utime + usage.ru_stime,
            megabytes=usage.ru_maxrss * unit / _MB,
            out=said.read(),
        )


def holdfast(home: Path, *words: object) -> Run:
    return run(*_HOLDFAST, "--home", home, *words)


def hermes(home: Path, work: str, *words: object) -> Run:
    return run(hermes_python(), WORKERS / "hermes_prune.py", work, home, *words, HERMES_HOME=home)


def on_disk(path: Path) -> int:
    """The bytes that a file or everything below a folder takes, as `du` counts them."""
    entries = (path, *path.rglob("*")) if path.is_dir() else (path,)
    return sum(each.lstat().st_blocks * 512 for each in entries if each.exists())


def database(home: Path) -> int:
    return sum(on_disk(path) for path in home.glob("s*.db*"))


@dataclass(slots=True, kw_only=True)
class Figures:
    """The values of one way, by what was measured; medians are what counts."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> float:
        return statistics.median(self.values[name])


def build(scratch: Path, count: int) -> tuple[Path, Path]:
    """The same sessions and files in a home of either kind."""
    ours, theirs, file = scratch / "holdfast", scratch / "hermes", scratch / "sessions.jsonl"
    folders = (ours / "sessions", theirs / "sessions")
    run(sys.executable, WORKERS / "prune_corpus.py", file, count, _PER_SESSION, *folders)
    holdfast(ours, "sessions", "import", file)
    built = hermes(theirs, "build", file)
    if json.loads(built.out)["sessions"] != count:
        raise SystemExit(f"Hermes did not take all sessions in: {built.out}")
    file.unlink()
    return ours, theirs


def on_a_copy(home: Path, work: Callable[[Path], None]) -> None:
    """Do some work on a copy that has reached the disk, so that nobody pays for the copying."""
    copy = home.with_name(f"{home.name}-copy")
    shutil.copytree(home, copy, symlinks=True)
    os.sync()
    work(copy)
    shutil.rmtree(copy)


def measure_prune(home: Path, figures: Figures) -> None:
    """Prune to the trash, and take it back."""
    figures.add("prune", holdfast(home, "sessions", "prune", "--yes").seconds)
    figures.add("after", on_disk(home))
    figures.add("trash", on_disk(home / "trash"))
    figures.add("files", count_files(home))
    figures.add("undo", holdfast(home, "undo").seconds)
    figures.add("back", min(count_sessions(home), count_files(home)))


def measure_final(home: Path, figures: Figures) -> None:
    figures.add("now", holdfast(home, "sessions", "prune", "--yes", "--now").seconds)
    figures.add("after now", on_disk(home))


def measure_hermes(home: Path, figures: Figures) -> None:
    done = hermes(home, "prune")
    figures.add("prune", done.seconds)
    figures.add("pruned", json.loads(done.out)["sessions"])
    figures.add("after", on_disk(home))
    figures.add("files", count_files(home))


def measure_archive(home: Path, figures: Figures) -> None:
    """Archive the oldest tenth, and restore it."""
    before = database(home)
    older = f"{OLD_DAYS * 3 // 4}d"
    done = holdfast(home, "sessions", "archive", "--older-than", older, "--yes")
    figures.add("archive", done.seconds)
    figures.add("database freed", before - database(home))
    bundles = list((home / "archive").glob("*.tar.*"))
    figures.add("bundles", len(bundles))
    figures.add("bundle bytes", sum(path.stat().st_size for path in bundles))
    figures.add("archive on disk", on_disk(home / "archive"))
    figures.add("restore", holdfast(home, "sessions", "restore", "--all").seconds)


def count_files(home: Path) -> int:
    return len(list((home / "sessions").glob("session_*.json")))


def count_sessions(home: Path) -> int:
    said = holdfast(home, "--json", "sessions", "list", "--limit", 1)
    return int(json.loads(said.out)["total"])


def compare(scratch: Path, count: int, rounds: int, found: dict[str, float]) -> tuple[float, float]:
    """How long a prune took, Holdfast's and Hermes's."""
    home, hermes_home = build(scratch, count)
    ours, theirs, archive = Figures(), Figures(), Figures()
    on_a_copy(home, lambda copy: measure_final(copy, Figures()))  # warms the caches
    for number in range(rounds):
        on_a_copy(home, lambda copy: measure_prune(copy, ours))
        if number == 0:
            on_a_copy(hermes_home, lambda copy: measure_hermes(copy, theirs))
        on_a_copy(home, lambda copy: measure_final(copy, ours))
        on_a_copy(home, lambda copy: measure_archive(copy, archive))
    if ours["back"] != count or theirs["pruned"] != count:
        raise SystemExit(f"Not all of {count:,} were pruned and brought back: {ours} {theirs}")
    print(_TEXT.format(count=count, each=_PER_SESSION, hermes=HERMES, rounds=rounds))
    show_times(ours, theirs)
    show_bytes(ours, theirs, on_disk(home), on_disk(hermes_home))
    show_archive(archive, database(home))
    found["prune"] = theirs["prune"] / ours["prune"]
    found["undo"] = ours["undo"] / ours["prune"]
    for step in ("archive", "restore"):
        found[step] = archive[step] / archive["bundles"] * 1e3
    shutil.rmtree(home)
    shutil.rmtree(hermes_home)
    return ours["prune"], theirs["prune"]


def by_number(scratch: Path, count: int) -> Iterator[tuple[int, float, float]]:
    """The same prune for fewer sessions, one round each: how it grows."""
    for share in _SHARES:
        fewer = max(1, count // share)
        home, hermes_home = build(scratch, fewer)
        ours, theirs = Figures(), Figures()
        on_a_copy(home, lambda copy, figures=ours: measure_prune(copy, figures))  # type: ignore[misc]
        on_a_copy(hermes_home, lambda copy, figures=theirs: measure_hermes(copy, figures))  # type: ignore[misc]
        shutil.rmtree(home)
        shutil.rmtree(hermes_home)
        yield fewer, ours["prune"], theirs["prune"]


def show_times(ours: Figures, theirs: Figures) -> None:
    slow = theirs["prune"]
    print(f"| work, whole processes | Holdfast | Hermes {HERMES} | ratio | wanted |")
    print("|---|---:|---:|---:|---:|")
    for name, what in (
        ("prune", "prune with files, space given back, undo kept"),
        ("now", "the same with `--now`, for good"),
    ):
        fast = ours[name]
        limit = ROWS["prune"]
        print(f"| {what} | {fast:.2f} s | {slow:.1f} s | {slow / fast:.0f} x | {limit} |")
    ratio = f"{ours['undo'] / ours['prune']:.1f} x the prune"
    print(f"| undo of it | {ours['undo']:.2f} s | none | {ratio} | {ROWS['undo']} |")


def show_bytes(ours: Figures, theirs: Figures, before: int, hermes_before: int) -> None:
    print()
    print(f"| on the disk | Holdfast | Hermes {HERMES} |")
    print("|---|---:|---:|")
    print(f"| home before | {before / _MB:,.1f} MB | {hermes_before / _MB:,.1f} MB |")
    print(f"| home after, trash included | {ours['after'] / _MB:,.1f} MB |  |")
    without, hermes_after = ours["after"] - ours["trash"], theirs["after"]
    both = f"{without / _MB:,.1f} MB | {hermes_after / _MB:,.1f} MB"
    print(f"| home after, without trash | {both} |")
    print(f"| home after `--now` | {ours['after now'] / _MB:,.1f} MB |  |")
    print(f"| session files left behind | {ours['files']:,.0f} | {theirs['files']:,.0f} |")


def show_archive(figures: Figures, whole: int) -> None:
    count = figures["bundles"]
    print()
    print(f"| {count:,.0f} of the sessions | takes | each | wanted |")
    print("|---|---:|---:|---:|")
    for step, words in (("archive", "archive"), ("restore", "restore from the archive")):
        each = figures[step] / count * 1e3
        print(f"| {words} | {figures[step]:.2f} s | {each:.1f} ms | {ROWS[step]} |")
    print()
    print(
        f"Their bundles are {figures['bundle bytes'] / _MB:.1f} MB "
        f"({figures['archive on disk'] / _MB:.1f} MB on the disk); the database of "
        f"{whole / _MB:.1f} MB gave back {figures['database freed'] / _MB:.1f} MB for them."
    )
    print()


class Writer:
    """An agent that appends all the time, in a process of its own."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKERS / "holdfast_writer.py"), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self._process.stdout
        if said is None or not said.readline():
            raise SystemExit("The writer did not start.")

    def stop(self) -> tuple[float, float, float]:
        """How long its appends took in milliseconds: in the median, 99 % of them, the longest."""
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise SystemExit("The writer failed.")
        waits = json.loads(out)
        median, p99, longest = (waits[name] * 1000 for name in ("median", "p99", "longest"))
        return median, p99, longest


def large(scratch: Path, count: int) -> float:
    """What only Holdfast is asked for: many sessions, little memory, writers that hardly wait.
    Gives the longest wait of one beside the prune, in seconds."""
    home = scratch / "large"
    run(sys.executable, WORKERS / "large_store.py", home, count, _LARGE_EACH)
    os.sync()
    before = database(home)
    print(
        f"Only for Holdfast: {count:,} sessions of {_LARGE_EACH} messages, a database of "
        f"{before / _MB:,.0f} MB."
    )
    print()
    print("| work | takes | memory | wanted |")
    print("|---|---:|---:|---:|")
    for words, wanted in (
        (("sessions", "gc", "--dry-run"), "< 2 s"),
        (("sessions", "stats"), "< 2 s"),
        (("status",), ""),
    ):
        done = [holdfast(home, *words) for _ in range(_ROUNDS)]
        seconds = statistics.median(each.seconds for each in done)
        memory = max(each.megabytes for each in done)
        print(f"| `{' '.join(words)}` | {seconds:.2f} s | {memory:.0f} MB | {wanted} |")
    writer = Writer(home)
    time.sleep(_ALONE_SECONDS)
    alone = writer.stop()
    writer = Writer(home)
    pruned = holdfast(home, "sessions", "prune", "--older-than", _LARGE_AGE, "--yes")
    waits = writer.stop()
    gone = f"`sessions prune --older-than {_LARGE_AGE}`, {count - count_sessions(home):,} go"
    print(f"| {gone} | {pruned.seconds:.0f} s | {pruned.megabytes:.0f} MB | < 200 MB |")
    print()
    print("| a writer that appends every 5 ms | median | 99 % within | longest | wanted |")
    print("|---|---:|---:|---:|---:|")
    for name, (median, p99, longest), wanted in (
        ("alone", alone, ""),
        ("beside that prune", waits, f"≤ {ROWS['writer'].figure * 1e3:.0f} ms"),
    ):
        print(f"| {name} | {median:.1f} ms | {p99:.1f} ms | {longest:.0f} ms | {wanted} |")
    print()
    shutil.rmtree(home)
    return waits[2] / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=5_000, help="how many to prune [5000]")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"of Holdfast [{_ROUNDS}]")
    parser.add_argument("--only", choices=("compared", "large"), help="one part of it")
    parser.add_argument(
        "--large-sessions", type=int, default=200_000, help="beside a writer [200000]"
    )
    common_options(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sessions, arguments.rounds, arguments.large_sessions = _QUICK, 1, _QUICK_LARGE
    plot = Plot(
        name="prune-time",
        title="Prune sessions of 20 messages with their files, space given back",
        x="sessions",
        y="seconds",
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        scratch, count, found = Path(name), arguments.sessions, dict[str, float]()
        if arguments.only != "large":
            took = [*([] if arguments.quick else by_number(scratch, count))]
            took.append((count, *compare(scratch, count, arguments.rounds, found)))
            for number, ours, theirs in took:
                plot.add("Holdfast", number, ours)
                plot.add(f"Hermes {HERMES}", number, theirs)
        if arguments.only != "compared":
            found["writer"] = large(scratch, arguments.large_sessions)
    save(arguments.json, [plot], found)


if __name__ == "__main__":
    main()
