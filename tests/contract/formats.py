"""Every format with a sample home: the one factory of the contract suite."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.homes.format_home import STATE, FormatHome
from holdfast.model.item import SESSION, Item
from holdfast.model.plan import Plan
from holdfast.policy.by_name import plan_all
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.ports import Format
from tests.contract.sample_format import MarmotFormat, make_home
from tests.contract.test_parts import everything_below, tables_of

NOW = 1_800_000_000.0


def clock() -> float:
    return NOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A format and how to make a home of it: `make` takes the folder and gives the ids. `touch`
    changes a session, `revive` gives it a sign of life, `age` makes the home of another version."""

    form: Format
    make: Callable[[Path], tuple[str, ...]]
    touch: Callable[[Path, str], object]
    revive: Callable[[Path, str], object]
    age: Callable[[Path], object]

    def opened(self, root: Path) -> FormatHome:
        return FormatHome(root, self.form, clock=clock)


def _make_marmot(root: Path) -> tuple[str, ...]:
    chats = ("aa01", "bb02", "bb02-sub", "cc03")
    make_home(root, chats)
    return chats


FORMATS = {
    "marmot": Sample(
        form=MarmotFormat(),
        make=_make_marmot,
        touch=lambda root, name: _append(root / "chats" / f"{name}.jsonl"),
        revive=lambda root, name: (root / "pids" / name).write_text(str(os.getpid())),
        age=lambda root: (root / "VERSION").write_text("99\n"),
    )
}


def snapshot(root: Path) -> dict[str, object]:
    """All that an agent could see of its home: bytes, modes, times; databases by their rows."""
    seen = {
        name: what
        for name, what in everything_below(root).items()
        if not name.startswith(STATE) and not name.endswith((".db", ".db-wal", ".db-shm"))
    }
    stores = {str(path): tables_of(path) for path in sorted(root.glob("*.db"))}
    # What something left has another time: the folders themselves, and the shared files' folders.
    return {name: _without_folder_time(what) for name, what in seen.items()} | stores


def _without_folder_time(what: object) -> object:
    assert isinstance(what, tuple)
    mode, time, content = what
    return (mode, 0 if content is None else time, content)


def prune_plan(home: FormatHome, *, use_trash: bool = True, max_age: float = 30 * DAY) -> Plan:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=max_age)), use_trash=use_trash)
    return plan(policy, home.scan(NOW), NOW, command="sessions prune")


def sessions_of(home: FormatHome) -> list[Item]:
    return [item for item in home.scan(NOW).items if item.kind == SESSION]


def removing(home: FormatHome, *ids: str, undoable: bool = True) -> Plan:
    """A plan that removes these sessions, whatever a policy would say."""
    items = [item for item in home.scan(NOW).items if item.id in ids]
    return plan_all(
        items, str(home.root), NOW, command="test", reason="asked for", undoable=undoable
    )


def _append(path: Path) -> None:
    status = path.stat()
    with path.open("a") as file:
        file.write('{"role": "user", "text": "more", "at": 1}\n')
    os.utime(path, (status.st_atime, status.st_mtime + 1))
