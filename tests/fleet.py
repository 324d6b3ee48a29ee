"""Several homes with one store: each of them is a machine."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.model.session import SessionFilter
from holdfast.model.stored_session import Holder
from holdfast.stores import home_identity, processes
from holdfast.stores.postgres import operation_log
from tests import postgres
from tests.stored import a_line

DAY = 86_400.0
NOW = 1_800_000_000.0


class Machine:
    """A machine with its home. While it is `open`, this process is that machine."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.name = name
        self.boot = "boot 1"
        self.root = folder / name
        self.root.mkdir(parents=True)
        (self.root / "config.toml").write_text(f'[store]\nurl = "{url}"\n')

    @contextlib.contextmanager
    def open(self, *, now: float = NOW) -> Iterator[Home]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operation_log, "host_name", lambda: self.name)
            patch.setattr(home_identity, "machine_id", lambda: f"id-of-{self.name}")
            patch.setattr(processes, "this_process", lambda: self.process)
            with holdfast.open(self.root, create=True, clock=lambda: now) as home:
                yield home

    @property
    def process(self) -> Holder:
        """What this process would be there."""
        host = f"{self.name}/id-of-{self.name}/pid:[4026531836]"
        return Holder(host=host, boot=self.boot, process=os.getpid(), started="7")

    def transcript(self, session: str) -> Path:
        return self.root / "sessions" / f"{session}.jsonl"


def machines(folder: Path, *names: str, url: str | None = None) -> list[Machine]:
    shared = url or postgres.a_database()
    return [Machine(folder, shared, name) for name in names]


def old_sessions(machine: Machine, *names: str, transcripts: bool = True) -> None:
    """Sessions that ended 200 days ago, with transcripts on the disk of their machine."""
    past = NOW - 200 * DAY
    lines = [json.dumps(a_line(name, at=past)).encode() + b"\n" for name in names]
    with machine.open() as home:
        home.import_(io.BytesIO(b"".join(lines)))
    for name in names if transcripts else ():
        path = machine.transcript(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"role": "user", "content": "{name}"}}\n')
        os.utime(path, (past, past))


def ids(home: Home) -> list[str]:
    return sorted(each.id for each in home.need_store().find(SessionFilter()))
