"""What the benchmark of checkpoints found: kept as plain values, shown as tables of ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from baselines import HERMES as HERMES_VERSION
from plotting import Plot

OURS, KNOWN, GIT = "Holdfast", "Holdfast, path known", "`git add -A`"
HERMES, RESTIC, BORG = f"Hermes {HERMES_VERSION}", "restic", "borg"
PROCESS, SYNCED = "Holdfast, whole process", "git, then `sync`"
EVERYONE = (OURS, KNOWN, PROCESS, GIT, HERMES, RESTIC, BORG)

#: The sizes that what is wanted speaks of.
_TARGET_FILES, _MANY_FILES = 10_000, 200_000
_SECOND = 2
#: The last one before the oldest has to go.
LAST_YOUNG = 20
_MB = 1e6

Times = Mapping[str, Sequence[float]]


@dataclass(slots=True, kw_only=True)
class Size:
    """All that was measured with a tree of so many files, in seconds and bytes."""

    files: int
    bytes: int = 0
    memory: float = 0
    changed: dict[str, list[float]] = field(default_factory=dict)
    unchanged: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, list[float]] = field(default_factory=dict)
    #: By the number of the checkpoint in a row.
    series: dict[int, list[float]] = field(default_factory=dict)
    #: The 2nd to the 20th of other stores, each beside a later one of the series.
    young: list[float] = field(default_factory=list)
    hermes_series: dict[int, float] = field(default_factory=dict)
    restore: dict[str, list[float]] = field(default_factory=dict)
    #: By the number of checkpoints: as they were left, after maintenance, and git in one pack.
    disk: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    #: Of the last of these, what the indexes take: Holdfast's and git's.
    indexes: tuple[int, int] = (0, 0)
    packing: float = 0


@dataclass(slots=True, kw_only=True)
class Results:
    """Everything. `status` has seconds and megabytes by command."""

    durable_write: float = 0
    load: tuple[float, float] = (0, 0)
    sizes: list[Size] = field(default_factory=list)
    projects: int = 0
    sessions: int = 0
    status: dict[str, tuple[float, float]] = field(default_factory=dict)


def span(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def median(times: Times, who: str) -> float:
    """0 for one that was not measured."""
    return statistics.median(times[who]) if times.get(who) else 0


def shown(seconds: float) -> str:
    return span(seconds) if seconds else ""


def ratio(value: float) -> str:
    return f"{value:.0f} x" if value >= 10 else f"{value:.2f} x"


def turns(results: Results) -> Iterator[str]:
    yield "| 1 file changed | " + " | ".join(EVERYONE) + " |"
    yield "|---|" + "---:|" * len(EVERYONE)
    for size in results.sizes:
        yield _times(f"of {size.files:,}", size.changed)
    for size in results.sizes:
        yield _times(f"none of {size.files:,}", size.unchanged)


def firsts(results: Results) -> Iterator[str]:
    everyone = (OURS, GIT, RESTIC, BORG, HERMES)
    yield "| first checkpoint | " + " | ".join(everyone) + " | memory |"
    yield "|---|" + "---:|" * (len(everyone) + 1)
    for size in results.sizes:
        line = _times(f"of {size.files:,} files, {size.bytes / _MB:,.0f} MB", size.first, everyone)
        yield f"{line} {size.memory:.0f} MB |"


def _times(what: str, times: Times, everyone: Sequence[str] = EVERYONE) -> str:
    cells = (shown(median(times, who)) for who in everyone)
    return f"| {what} | " + " | ".join(cells) + " |"


def in_a_row(size: Size, positions: Sequence[int]) -> Iterator[str]:
    yield f"| checkpoint, {size.files:,} files | {OURS} | to its 2nd | {HERMES} | to its 2nd |"
    yield "|---|---:|---:|---:|---:|"
    second, theirs = statistics.median(size.series[_SECOND]), size.hermes_series
    for position in positions:
        if position not in size.series:
            continue
        mine = statistics.median(size.series[position])
        beside = theirs.get(position, 0)
        other = f"{span(beside)} | {ratio(beside / theirs[_SECOND])}" if beside else " | "
        yield f"| {position}. | {span(mine)} | {ratio(mine / second)} | {other} |"
    young, later = _flatness(size)
    yield ""
    yield (
        f"The 21st to the {max(size.series)}th: {_middle(later)}, the slowest {span(max(later))}."
        f" The 2nd to the 20th of other stores, taken in between: {_middle(young)}, the slowest"
        f" {span(max(young))}. The mean has what only some of them do: every 24th or so joins"
        " packs, every 65th or so brings the index up to date."
    )


def _middle(values: Sequence[float]) -> str:
    return f"{span(statistics.median(values))} in the median, {span(statistics.mean(values))} mean"


def _flatness(size: Size) -> tuple[Sequence[float], Sequence[float]]:
    """Those before the first has to go, and those after. They are taken side by side, because a
    machine is busier at one time than at another."""
    before = [x for n, xs in size.series.items() if _SECOND <= n <= LAST_YOUNG for x in xs]
    after = [x for n, xs in size.series.items() if n > LAST_YOUNG for x in xs]
    return size.young or before, after or before


def disks(size: Size) -> Iterator[str]:
    yield f"| checkpoints of {size.files:,} files | as left | after maintenance | git | ratio |"
    yield "|---|---:|---:|---:|---:|"
    for count, (left, packed, git) in size.disk.items():
        cells = " | ".join(f"{each / _MB:.2f} MB" for each in (left, packed, git))
        yield f"| {count} | {cells} | {ratio(packed / git)} |"
    _, packed, git = _last(size)
    ours, theirs = size.indexes
    yield ""
    yield (
        f"Of the last line, the private folders take {ours / _MB:.2f} MB, and git's indexes"
        f" {theirs / _MB:.2f} MB. To git's without any index it is"
        f" {ratio(packed / (git - theirs))}. The last maintenance took {span(size.packing)}."
    )


def _last(size: Size) -> tuple[int, int, int]:
    return list(size.disk.values())[-1]


def restores(results: Results) -> Iterator[str]:
    yield "| restore | Holdfast | `git read-tree --reset -u` | ratio | git, then `sync` | ratio |"
    yield "|---|---:|---:|---:|---:|---:|"
    for size in results.sizes:
        for what, words in (("some", "changed files of"), ("all", "into an empty directory, of")):
            if size.restore:
                mine, git, synced = (
                    median(size.restore, f"{who} {what}") for who in (OURS, GIT, SYNCED)
                )
                cells = (
                    f"{span(mine)} | {span(git)} | {ratio(mine / git)}"
                    f" | {span(synced)} | {ratio(mine / synced)}"
                )
                yield f"| {words} {size.files:,} | {cells} |"


def statuses(results: Results) -> Iterator[str]:
    yield f"| {results.projects:,} projects, {results.sessions:,} sessions | takes | memory |"
    yield "|---|---:|---:|"
    for words, (seconds, memory) in results.status.items():
        yield f"| {words} | {span(seconds)} | {f'{memory:.0f} MB' if memory else ''} |"


def reached(results: Results) -> Iterator[tuple[str, float]]:
    """What was found of what is wanted, by the key of its row."""
    by_files = {size.files: size for size in results.sizes}
    usual = by_files.get(_TARGET_FILES) or results.sizes[0]
    large = by_files.get(_MANY_FILES) or results.sizes[-1]
    for key, times, ours, theirs in (
        ("take process", usual.changed, HERMES, PROCESS),
        ("take", usual.changed, HERMES, OURS),
        ("take git", usual.changed, OURS, GIT),
        ("take known", usual.changed, HERMES, KNOWN),
        ("take 200k", large.changed, OURS, GIT),
        ("first git", usual.first, OURS, GIT),
        ("first restic", usual.first, OURS, RESTIC),
        ("first 200k", large.first, OURS, RESTIC),
        ("restore some", usual.restore, f"{OURS} some", f"{GIT} some"),
        ("restore all", usual.restore, f"{OURS} all", f"{GIT} all"),
        ("restore all durable", usual.restore, f"{OURS} all", f"{SYNCED} all"),
    ):
        above, below = median(times, ours), median(times, theirs)
        if above and below:
            yield key, above / below
    if large.memory:
        yield "first 200k memory", large.memory
    if len(usual.series) > LAST_YOUNG:
        young, later = _flatness(usual)
        yield "later", statistics.median(later) / statistics.median(young)
        yield "later mean", statistics.mean(later) / statistics.mean(young)
    if usual.disk:
        _, packed, git = _last(usual)
        yield "disk", packed / git
    for words, (seconds, memory) in results.status.items():
        key = words.strip("`").removeprefix("holdfast ").replace("the library", "overview")
        yield key, seconds
        if memory:
            yield f"{key} memory", memory


def plots(results: Results) -> Iterator[Plot]:
    by_size = Plot(
        name="checkpoint-size",
        title="Checkpoint, one file changed",
        x="files in the tree",
        y="seconds",
        log_x=True,
        log_y=True,
    )
    for size in results.sizes:
        for who in EVERYONE:
            if size.changed.get(who):
                by_size.add(who.strip("`"), size.files, median(size.changed, who))
    yield by_size
    measured = [size for size in results.sizes if size.files <= _TARGET_FILES]
    if measured and measured[-1].series:
        yield _nth(measured[-1])
    if measured and measured[-1].disk:
        yield _disk(measured[-1])


def _nth(size: Size) -> Plot:
    plot = Plot(
        name="checkpoint-nth",
        title=f"The n-th checkpoint in a row, one of {size.files:,} files changed",
        x="number of the checkpoint",
        y="seconds",
        log_y=True,
    )
    for position, seconds in size.series.items():
        if position >= _SECOND:
            plot.add(OURS, position, statistics.median(seconds))
    for position, each in size.hermes_series.items():
        if position >= _SECOND:
            plot.add(HERMES, position, each)
    return plot


def _disk(size: Size) -> Plot:
    plot = Plot(
        name="checkpoint-disk",
        title=f"Disk for checkpoints of worktrees with {size.files:,} files",
        x="checkpoints",
        y="MB",
    )
    for count, (left, packed, git) in size.disk.items():
        plot.add(f"{OURS}, before maintenance", count, left / _MB)
        plot.add(OURS, count, packed / _MB)
        plot.add("git, one pack", count, git / _MB)
    return plot
