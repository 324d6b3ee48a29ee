"""A home of Hermes bounded by Holdfast beside Hermes itself, on the same home in one run.

The home is made by Hermes's own `SessionDB`, with its schema, its triggers and a
`session_{id}.json` for every session; it is built once and copied for every round. Whole processes
are timed, the start of the interpreter included: `holdfast sessions prune --yes` on one side,
Hermes's own `prune_sessions` with files and its `vacuum` on the other. Rounds alternate; Holdfast
has two, and Hermes one, because that takes minutes. Each time Hermes itself looks at what
Holdfast left.

    .venv/bin/python bench/hermes.py                   a few minutes, 4 GB
    .venv/bin/python bench/hermes.py --all-go          also a prune that leaves nothing
    .venv/bin/python bench/hermes.py --quick           whether it works, a few seconds
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from baselines import HERMES, hermes_python
from plotting import common_options, save
from prune import Figures, Run, holdfast, on_a_copy, on_disk, run
from wanted import ROWS

_WORKER = Path(__file__).parent / "workers" / "hermes_home.py"
_PER_SESSION = 20
_ROUNDS = 2
_MB = 1e6
_TEXT = """\
## A home of Hermes

A home that Hermes {hermes} itself made, with its schema, its triggers and a
`session_{{id}}.json` for every session of {each} messages. `holdfast --home … sessions prune --yes`
next to Hermes's own `prune_sessions` with files and its `vacuum`, as whole processes. Every round
works on a fresh copy; medians of {rounds} rounds, and one round for Hermes. After each, Hermes
itself looks at what Holdfast left, finds its database whole and its search tables in step.
"""
_QUICK = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How many sessions a prune takes, and how many it leaves."""

    name: str
    old: int
    recent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    case: Case
    before: int
    ours: Figures
    theirs: Figures


def hermes(home: Path, work: str, *words: object) -> Run:
    return run(hermes_python(), _WORKER, work, home, *words, HERMES_HOME=home)


def session_files(home: Path) -> int:
    return len(list((home / "sessions").glob("session_*.json")))


def measure_trash(home: Path, case: Case, figures: Figures, *, undo: bool) -> None:
    """Prune into the trash, let Hermes look at what is left, and once take it back: every message
    goes into Hermes's search tables again."""
    done = holdfast(home, "sessions", "prune", "--yes")
    figures.add("prune", done.seconds)
    figures.add("prune memory", done.megabytes)
    figures.add("after", on_disk(home))
    figures.add("trash", on_disk(home / ".holdfast" / "trash"))
    figures.add("files left", session_files(home) - case.recent)
    check(home, case.recent)
    if undo:
        figures.add("undo", holdfast(home, "undo").seconds)
        check(home, case.old + case.recent)


def measure_now(home: Path, case: Case, figures: Figures) -> None:
    """Prune for good, as Hermes does."""
    figures.add("now", holdfast(home, "sessions", "prune", "--yes", "--now").seconds)
    figures.add("after now", on_disk(home))
    check(home, case.recent)


def measure_hermes(home: Path, case: Case, figures: Figures) -> None:
    done = hermes(home, "prune")
    if json.loads(done.out)["sessions"] != case.old:
        raise SystemExit(f"Hermes pruned something else: {done.out}")
    figures.add("prune", done.seconds)
    figures.add("prune memory", done.megabytes)
    figures.add("after", on_disk(home))
    figures.add("files left", session_files(home) - case.recent)


def check(home: Path, sessions: int) -> None:
    """Hermes finds its database whole, and its search tables in step with its messages."""
    seen = json.loads(hermes(home, "look").out)
    messages = sessions * _PER_SESSION
    wanted = {
        "whole": "ok",
        "sessions": sessions,
        "messages": messages,
        "messages_fts_docsize": messages,
        "messages_fts_trigram_docsize": messages,
    }
    if seen != wanted:
        raise SystemExit(f"Hermes sees {seen}, and not {wanted}.")


def measure(scratch: Path, case: Case, rounds: int) -> Measured:
    home = scratch / "hermes"
    home.mkdir()
    hermes(home, "build", case.old, case.recent, _PER_SESSION)
    ours, theirs = Figures(), Figures()
    for number in range(rounds):
        first = number == 0
        on_a_copy(home, partial(measure_trash, case=case, figures=ours, undo=first))
        if first:
            on_a_copy(home, lambda copy: measure_hermes(copy, case, theirs))
        on_a_copy(home, lambda copy: measure_now(copy, case, ours))
    return Measured(case=case, before=on_disk(home), ours=ours, theirs=theirs)


def show(measured: Measured) -> None:
    case, ours, theirs = measured.case, measured.ours, measured.theirs
    print(f"{case.name}: {case.old:,} sessions go, {case.recent:,} stay.")
    print()
    print(f"| work, whole processes | Holdfast | Hermes {HERMES} | ratio | wanted |")
    print("|---|---:|---:|---:|---:|")
    slow = theirs["prune"]
    for name, what in (
        ("now", "prune with files, space given back, for good (`--now`)"),
        ("prune", "the same, undo kept"),
    ):
        ratio = slow / ours[name]
        limit = ROWS["hermes prune"]
        print(f"| {what} | {ours[name]:.2f} s | {slow:.1f} s | {ratio:.1f} x | {limit} |")
    back = f"{ours['undo'] / ours['prune']:.1f} x the prune"
    print(f"| undo of it | {ours['undo']:.2f} s | none | {back} | {ROWS['hermes undo']} |")
    print()
    print(f"| left behind | Holdfast | Hermes {HERMES} |")
    print("|---|---:|---:|")
    print(f"| home before | {measured.before / _MB:,.1f} MB | {measured.before / _MB:,.1f} MB |")
    print(f"| home after | {ours['after now'] / _MB:,.1f} MB | {theirs['after'] / _MB:,.1f} MB |")
    print(f"| trash, where undo is kept | {ours['trash'] / _MB:,.1f} MB | none |")
    print(f"| files of pruned sessions | {ours['files left']:,.0f} | {theirs['files left']:,.0f} |")
    print(f"| memory | {ours['prune memory']:.0f} MB | {theirs['prune memory']:.0f} MB |")
    print()


def cases(old: int, *, all_go: bool) -> Iterator[Case]:
    if all_go:
        yield Case(name="All go", old=old, recent=0)
    yield Case(name="Some stay", old=old, recent=old // 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=5_000, help="how many to prune [5000]")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"of Holdfast [{_ROUNDS}]")
    parser.add_argument("--all-go", action="store_true", help="also a prune that leaves nothing")
    common_options(parser)
    arguments = parser.parse_args()
    count = _QUICK if arguments.quick else arguments.sessions
    rounds = 1 if arguments.quick else arguments.rounds
    print(_TEXT.format(each=_PER_SESSION, rounds=rounds, hermes=HERMES))
    for case in cases(count, all_go=arguments.all_go):
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
            measured = measure(Path(scratch), case, rounds)
        show(measured)
    ours, theirs = measured.ours, measured.theirs  # of the case in which some stay
    found = {
        "hermes prune": theirs["prune"] / ours["prune"],
        "hermes undo": ours["undo"] / ours["prune"],
    }
    save(arguments.json, (), found)


if __name__ == "__main__":
    main()
