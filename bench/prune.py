"""Getting rid of sessions beside Hermes, on the same data in one run.

Both homes hold the same sessions, each with a `session_{id}.json`. They are built once and copied
for every round. Whole processes are timed, the start of the interpreter included: `holdfast
sessions prune --yes` on one side, Hermes's own `prune_sessions` with files and its `vacuum` on the
other. Rounds alternate; Holdfast has three, and Hermes one, because that takes minutes.

    .venv/bin/python bench/prune.py                 10 minutes, 3 GB
    .venv/bin/python bench/prune.py --large         also 200,000 sessions beside a writer: 5 GB more
    .venv/bin/python bench/prune.py --sessions 200  whether it works
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from baselines import HERMES, hermes_python
from corpus import OLD_DAYS

_WORKERS = Path(__file__).parent / "workers"
_HOLDFAST = (sys.executable, "-m", "holdfast")
_ROUNDS = 3
_PER_SESSION = 20
_MB = 1e6
#: Of ages up to 400 days, three quarters are above this.
_LARGE_AGE = "100d"
_ALONE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process: how long it took, the most memory it had, what it said."""

    seconds: float
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
        return Run(seconds=seconds, megabytes=usage.ru_maxrss * unit / _MB, out=said.read())


def holdfast(home: Path, *words: object) -> Run:
    return run(*_HOLDFAST, "--home", home, *words)


def hermes(home: Path, work: str, *words: object) -> Run:
    return run(hermes_python(), _WORKERS / "hermes_prune.py", work, home, *words, HERMES_HOME=home)


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
    run(sys.executable, _WORKERS / "prune_corpus.py", file, count, _PER_SESSION, *folders)
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


def compare(scratch: Path, count: int, rounds: int) -> None:
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
    print(
        f"{platform.python_implementation()} {platform.python_version()}; {count:,} sessions of "
        f"{_PER_SESSION} messages with a file each; medians of {rounds} rounds, Hermes: 1 round"
    )
    show_times(ours, theirs)
    show_bytes(ours, theirs, on_disk(home), on_disk(hermes_home))
    show_archive(archive, database(home))


def show_times(ours: Figures, theirs: Figures) -> None:
    slow = theirs["prune"]
    print()
    print(f"| work, whole processes | Holdfast | Hermes {HERMES} | ratio | wanted |")
    print("|---|---:|---:|---:|---:|")
    for name, what in (
        ("prune", "prune with files, space given back, undo kept"),
        ("now", "the same with `--now`, for good"),
    ):
        fast = ours[name]
        print(f"| {what} | {fast:.2f} s | {slow:.1f} s | {slow / fast:.0f} x | ≥ 40 x |")
    print(f"| undo of it | {ours['undo']:.2f} s | none |  |  |")


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
    print()
    print(
        f"archive of {figures['bundles']:,.0f} sessions: {figures['archive']:.2f} s; "
        f"restore: {figures['restore']:.2f} s"
    )
    print(
        f"their bundles: {figures['bundle bytes'] / _MB:.1f} MB, on the disk "
        f"{figures['archive on disk'] / _MB:.1f} MB; the database of {whole / _MB:.1f} MB gave "
        f"back {figures['database freed'] / _MB:.1f} MB"
    )


class Writer:
    """An agent that appends all the time, in a process of its own."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKERS / "holdfast_writer.py"), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self._process.stdout
        if said is None or not said.readline():
            raise SystemExit("The writer did not start.")

    def stop(self) -> str:
        """How long its appends took, in words."""
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise SystemExit("The writer failed.")
        waits = json.loads(out)
        median, p99, longest = (waits[name] * 1000 for name in ("median", "p99", "longest"))
        return (
            f"{waits['appends']:,} appends, median {median:.1f} ms, 99 % within {p99:.1f} ms, "
            f"longest {longest:.0f} ms"
        )


def large(scratch: Path, count: int) -> None:
    """What only Holdfast is asked for: many sessions, little memory, writers that hardly wait."""
    home = scratch / "large"
    run(sys.executable, _WORKERS / "large_store.py", home, count)
    os.sync()
    before = database(home)
    print(f"{count:,} sessions of {_PER_SESSION} messages, a database of {before / _MB:,.0f} MB")
    for words, wanted in (
        (("sessions", "gc", "--dry-run"), " (wanted: < 2 s)"),
        (("sessions", "stats"), " (wanted: < 2 s)"),
        (("status",), ""),
    ):
        done = [holdfast(home, *words) for _ in range(_ROUNDS)]
        seconds = statistics.median(each.seconds for each in done)
        memory = max(each.megabytes for each in done)
        print(f"{' '.join(words)}: {seconds:.2f} s{wanted}, {memory:.0f} MB")
    writer = Writer(home)
    time.sleep(_ALONE_SECONDS)
    print(f"a writer alone: {writer.stop()}")
    writer = Writer(home)
    pruned = holdfast(home, "sessions", "prune", "--older-than", _LARGE_AGE, "--yes")
    waits = writer.stop()
    left = count_sessions(home)
    print(
        f"prune --older-than {_LARGE_AGE}: {pruned.seconds:.0f} s, {left:,} sessions left, "
        f"{pruned.megabytes:.0f} MB of memory (wanted: < 200 MB)"
    )
    print(f"a writer beside it: {waits} (wanted: < 250 ms)")
    print(
        f"the database after it: {database(home) / _MB:,.0f} MB, the trash: "
        f"{on_disk(home / 'trash') / _MB:,.0f} MB"
    )
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=5_000, help="how many to prune [5000]")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"of Holdfast [{_ROUNDS}]")
    parser.add_argument("--large", action="store_true", help="also what takes minutes and 5 GB")
    parser.add_argument("--large-sessions", type=int, default=200_000, help="in it [200000]")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        if arguments.large:
            large(Path(scratch), arguments.large_sessions)
        compare(Path(scratch), arguments.sessions, arguments.rounds)


if __name__ == "__main__":
    main()
