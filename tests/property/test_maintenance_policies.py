"""The policies that maintenance runs by itself, against a plain model, and undone again."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.config.reader import load
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.maintenance import close_home
from holdfast.homes.options import HomeOptions
from holdfast.model.operation import OperationAction
from holdfast.model.plan import Action
from holdfast.policy.rules import DAY
from holdfast.services.maintenance_steps import plan_step, steps_of
from holdfast.spine.undo import undo
from tests import tally
from tests.builders import NOW
from tests.stored import Seen, a_line, an_open_line, bring_in, check_whole, see

SOURCES = ("cli", "cron")
DAYS = st.sampled_from([0, 5, 20, 40, 100])


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One session, last active so many days ago; or a file that no session owns."""

    source: str
    age: int
    ended: bool
    file: bool
    row: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What the configuration says; `cron_…` are the keys of the source cron."""

    auto_archive: bool
    archive_after: int
    auto_prune: bool
    retention: int
    files: int
    own: dict[str, int] = field(default_factory=dict)

    def toml(self) -> str:
        lines = [
            "[sessions]",
            f"auto_archive = {str(self.auto_archive).lower()}",
            f"archive_after_days = {self.archive_after}",
            f"auto_prune = {str(self.auto_prune).lower()}",
            f"retention_days = {self.retention}",
            f"files_retention_days = {self.files}",
            "[sessions.source.cron]",
            *(f"{name} = {value}" for name, value in self.own.items()),
        ]
        return "\n".join(lines) + "\n"

    def of(self, name: str, usual: int, source: str) -> int:
        return self.own.get(name, usual) if source == "cron" else usual

    def fate(self, made: Made) -> tuple[str, bool]:
        """Where the session is after a run (store, archive, trash), and whether its file stays."""
        archive = self.of("archive_after_days", self.archive_after, made.source)
        retention = self.of("retention_days", self.retention, made.source)
        files = self.of("files_retention_days", self.files, made.source)
        if not made.ended:
            return "store", True
        if made.row and self.auto_archive and 0 < archive < made.age:
            return "archive", False
        if self.auto_prune and 0 < retention < made.age:
            return "trash", False
        return "store", not 0 < files < made.age


SESSIONS = st.lists(
    st.builds(
        Made,
        source=st.sampled_from(SOURCES),
        age=st.sampled_from([1, 4, 6, 19, 21, 39, 41, 99, 120]),
        ended=st.booleans() | st.just(True),
        file=st.booleans(),
        row=st.just(True),
    )
    | st.builds(
        Made,
        source=st.just("cron"),
        age=st.sampled_from([2, 6, 21, 41, 120]),
        ended=st.just(True),
        file=st.just(True),
        row=st.just(False),
    ),
    max_size=8,
)
KEYS = st.builds(
    Keys,
    auto_archive=st.booleans(),
    archive_after=DAYS,
    auto_prune=st.booleans(),
    retention=DAYS,
    files=DAYS,
    own=st.dictionaries(
        st.sampled_from(["archive_after_days", "retention_days", "files_retention_days"]), DAYS
    ),
)


def name_of(number: int, made: Made) -> str:
    return f"cron_job_2025010{number}_000000" if made.source == "cron" else f"chat-{number}"


def fill(root: Path, sessions: list[Made]) -> None:
    lines = []
    (root / "sessions").mkdir()
    for number, made in enumerate(sessions):
        name, at = name_of(number, made), NOW - made.age * DAY
        line = a_line if made.ended else an_open_line
        if made.row:
            lines.append(line(name, at=at, source=made.source))
        if made.file:
            path = root / "sessions" / f"{name}.jsonl"
            path.write_text(f'{{"role": "user", "content": "{name}"}}\n')
            os.utime(path, (at, at))
    bring_in(root, lines, now=NOW)


def shown(root: Path) -> Counter[tuple[str, str, Action]]:
    """What a dry run says would leave its place."""
    read = load(root / "config.toml", {})
    home = HoldfastHome(root, clock=lambda: NOW, options=HomeOptions.of(read))
    plans = [plan_step(step, home, read, now=NOW).plan for step in steps_of(read, home)]
    close_home(home)
    return Counter((item.kind, item.id, item.action) for plan in plans for item in plan.removals)


def unnumbered(seen: Seen) -> Seen:
    """What comes back from the archive has the same messages under new numbers."""
    said = {
        name: [replace(each, number=None) for each in messages]
        for name, messages in seen.messages.items()
    }
    return replace(seen, messages=said, hits=set())


@given(sessions=SESSIONS, keys=KEYS)
@settings(max_examples=25)
def test_each_session_ends_where_the_model_says_and_comes_back(
    sessions: list[Made], keys: Keys
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fill(root, sessions)
        (root / "config.toml").write_text(keys.toml())
        before, planned = see(root), shown(root)
        result = holdfast.maintain(root, clock=lambda: NOW)
        assert result.ok, result.errors

        home = HoldfastHome(root, clock=lambda: NOW)
        named = {name_of(number, made): made for number, made in enumerate(sessions)}
        fates = {name: keys.fate(made) for name, made in named.items()}
        after = see(root)
        rows = {name for name, made in named.items() if made.row}
        assert set(after.sessions) == {n for n in rows if fates[n][0] == "store"}
        archived = {item.session for item in home.archive.items()}
        assert archived == {n for n in rows if fates[n][0] == "archive"}
        assert set(after.files) == {
            f"{name}.jsonl" for name, made in named.items() if made.file and fates[name][1]
        }

        # Shown is done: the same items, each in one step only.
        operations = home.log.read().operations
        done = sum(each.removed for each in operations)
        assert all(count == 1 for count in planned.values()), planned
        assert done == len(planned)

        for operation in reversed(operations):
            if operation.action is OperationAction.REMOVE and operation.removed:
                undo(home, operation.id, clock=lambda: NOW)
        close_home(home)
        assert unnumbered(see(root)) == unnumbered(before)
        check_whole(root)
        tally.verified()
