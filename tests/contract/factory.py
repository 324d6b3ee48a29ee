"""The one factory of the contract suite: every kind of home, and every store.

A new kind of home adds one line to `HOMES`: a `Sample` that says how to make such a home. A new
store of sessions adds one line to `SESSION_STORES`, a new store of blobs one to `BLOBS`. They
inherit every law in `test_laws.py`, `test_session_store.py`, `test_blobs.py` and
`crash/test_home_kill.py`.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import sqlite3
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

import holdfast
from holdfast import Home, HomePlan
from holdfast.homes import registry
from holdfast.model.item import ARCHIVED, CHECKPOINT, SESSION
from holdfast.ports.archive import Blobs
from holdfast.ports.sessions import SessionStore
from holdfast.stores.blobs.address import Address
from holdfast.stores.blobs.folder import FolderBlobs
from holdfast.stores.blobs.object_store import ObjectBlobs as S3Blobs
from holdfast.stores.postgres.sessions import PostgresSessionStore
from holdfast.stores.sqlite.foreign import is_sqlite
from holdfast.stores.sqlite.search_index import AGE as WORDS_AGE
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import postgres
from tests.compat import hermes_sessions, hermes_store
from tests.contract import agent_homes, sample_format
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED
from tests.object_servers import CREDENTIALS, HASTY, an_address, moto, names_at, rclone
from tests.object_store import Bucket, ObjectBlobs
from tests.stored import a_dead_holder, a_line, an_open_line

DAY = 86_400.0
NOW = 1_800_000_000.0
#: In a message of at least one session that can go.
WORD = "zebra"

#: What the log says of an operation that made a sample what it is.
SETTING_UP = "setting up"

Look = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A home, and something in it that can go.

    `make` creates the home; the folder around it is free for projects. `plan` lets some items go
    and keeps others. `look` sees all that the agent has. What is None does not exist in this kind
    of home.
    """

    make: Callable[[Path], object]
    plan: Callable[..., HomePlan]
    look: Callable[[Home], Look]
    ids: Callable[[Home], set[str]]
    kind: str = SESSION
    now: float = NOW
    #: Change an item as its agent would.
    touch: Callable[[Home, str], object] | None = None
    #: Let a running process hold an item.
    revive: Callable[[Home, str], object] | None = None
    pin: Callable[[Home, str], object] | None = None
    #: Turn the home into that of a version that nobody knows yet.
    renew: Callable[[Path], object] | None = None
    #: Whether such a home can be read. Ours is refused as a whole.
    reads_newer: bool = True
    #: A SQLite file that another process can lock.
    database: str | None = None
    #: Whether rows get new numbers when a session comes back from the archive.
    renumbers: bool = False
    #: Whether sessions are ended here when their process is gone.
    ends: bool = False
    #: Raises unless the agent itself could open the home, before a killed run was settled.
    whole: Callable[[Path], object] | None = None
    #: Where Holdfast keeps its own files in such a home.
    state: str = ".holdfast"
    #: In a message of a session that can go.
    word: str = WORD
    #: Whether its sessions are not in the folder: then each test has its home made.
    elsewhere: bool = False
    #: Whether its archive is on an object store.
    objects: bool = False

    def open(self, root: Path) -> Home:
        return holdfast.open(root, clock=lambda: self.now)


class Templates:
    """Homes that are made once and copied for each test: copying is quicker."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def copy(self, name: str, root: Path) -> Sample:
        sample, template = HOMES[name], self._place / name / "home"
        if sample.elsewhere or sample.objects:
            sample.make(root)
            return sample
        if not template.exists():
            template.parent.mkdir(parents=True)
            sample.make(template)
        shutil.copytree(template, root, symlinks=True)
        return sample


@contextmanager
def formats_installed(place: Path) -> Iterator[None]:
    """The formats of the factory, as pip leaves the packages that bring them."""
    info = place / "sample_formats-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample-formats\nVersion: 1.0\n")
    lines = [f"{form.facts.name} = {form.__module__}:{form.__name__}\n" for form in FORMATS]
    (info / "entry_points.txt").write_text("".join(["[holdfast.homes]\n", *lines]))
    sys.path.insert(0, str(place))
    registry.brought.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(place))
        registry.brought.cache_clear()


# --- What an agent can see of its home ------------------------------------------------------------


def session_ids(home: Home) -> set[str]:
    return {each.id for each in home.sessions.find()}


def look_at_sessions(home: Home) -> Look:
    put_away(home)
    return files_and_rows(home.path)


def put_away(home: Home) -> None:
    """Close the files of a home. Unlike one that its owner closed, it opens them again."""
    home.close()
    home._place._closed = False


def files_and_rows(root: Path) -> Look:
    """Bytes, modes and times of all files, and the rows of every database with their rowids."""
    databases = databases_of(root)
    seen: Look = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if name.parts[0] in OURS or any(str(path).startswith(str(each)) for each in databases):
            continue
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        # A folder's time changes with what leaves it and returns.
        seen[str(name)] = (status.st_mode, 0 if content is None else status.st_mtime_ns, content)
    for path in databases:
        name = path.relative_to(root)
        seen |= {f"{name}:{table}": rows for table, rows in rows_of(path).items()}
    return seen


def databases_of(root: Path) -> list[Path]:
    """The SQLite files of the agent, wherever they lie. A lock that is named as one is empty."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix in (".db", ".sqlite")
        and path.relative_to(root).parts[0] not in OURS
        and path.is_file()
        and is_sqlite(path)
    ]


#: Holdfast's own files in any home. `.lock` files come and go with the processes that use them.
OURS = (
    ".holdfast",
    "operations",
    "trash",
    "archive",
    "checkpoints",
    "config.toml",
    "maintenance.json",
)


def rows_of(database: Path) -> dict[str, list[Any]]:
    """The rows of every table. Of a full-text index, which rows are in it."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        tables = db.execute(
            """
            SELECT name, CASE WHEN type = 'shadow' THEN 'id' WHEN wr THEN '*' ELSE 'rowid, *' END
            FROM pragma_table_list
            WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'
              AND (type = 'table' OR type = 'shadow' AND name LIKE '%_docsize')
            """
        ).fetchall()
        return {
            name: [
                row
                for row in db.execute(f'SELECT {columns} FROM "{name}" ORDER BY 1')  # noqa: S608
                if row[0] != WORDS_AGE  # how often a cache became out of date
            ]
            for name, columns in tables
        }


def words(sample: Sample, home: Home) -> Look:
    """What `look` sees, without what may be new when something returned: the times of files that
    sessions share, and the numbers of rows where the store gives new ones."""
    seen: Look = {
        name: (what[0], what[2]) if isinstance(what, tuple) and sample.kind == SESSION else what
        for name, what in sample.look(home).items()
    }
    if sample.renumbers:
        seen = {name: what for name, what in seen.items() if ".db:" not in name}
        for each in home.sessions.find():
            said = home.sessions.messages(each)
            seen[each.id] = (each, [replace(message, number=None) for message in said])
    return seen


def trash(sample: Sample, home: Home) -> list[Path]:
    """The files of undo copies. Those of checkpoints are references in their repository."""
    state = home.path / sample.state
    places = (state / "trash", state / "archive" / ".trash")
    here = [path for place in places for path in place.rglob("*") if not path.is_dir()]
    if sample.objects:
        stored = names_at(**_archive_of(state))
        here += [state / each for each in stored if "/.trash/" in each]
    if not sample.elsewhere:
        return here
    bundles = postgres.execute(
        address_of(home.path), "SELECT operation FROM holdfast.trash_bundles"
    )
    return [*here, *(state / "in the database" / operation for (operation,) in bundles)]


def _archive_of(state: Path) -> dict[str, str]:
    found: dict[str, str] = tomllib.loads((state / "config.toml").read_text())["archive"]
    return found


def cut_bundle(sample: Sample, home: Home, file: str) -> None:
    """Take the end of a bundle away."""
    state = home.path / sample.state
    if sample.objects:
        client = Address(**_archive_of(state)).opened(HASTY, seconds=5)
        client.put(file, bytes(client.get(file).bytes())[:-40])
    else:
        path = state / "archive" / file
        path.write_bytes(path.read_bytes()[:-40])


def checkpoint_ids(home: Home) -> set[str]:
    return {each.id for each in home.checkpoints.list()}


def look_at_checkpoints(home: Home) -> Look:
    """Every checkpoint with its facts and all that it captured; all of it whole."""
    assert home.checkpoints.verify().ok
    return {each.id: home.checkpoints.show(each) for each in home.checkpoints.list()}


def bundle_ids(home: Home) -> set[str]:
    return {each.file for each in home.archive.find()}


def look_at_bundles(home: Home) -> Look:
    return {
        each.file: (each, list(home.archive.messages(each.session.id)))
        for each in home.archive.find()
    }


# --- Holdfast's own home --------------------------------------------------------------------------

_FIRST, _SECOND, _YOUNG = (
    "20260101_000000_aaaaaa",
    "20260102_000000_bbbbbb",
    "20270114_000000_cccccc",
)
_LEFT = "20260104_000000_eeeeee"


def _make_own(root: Path) -> None:
    """Two sessions that can go, the second a branch of the first; a young one, an open one, and one
    whose process is gone."""
    past = NOW - 200 * DAY
    lines = [
        a_line(_FIRST, at=past, title="A title", cost=0.5, tokens=7),
        a_line(_SECOND, at=past, parent_id=_FIRST, relation="branch"),
        a_line("20270114_000000_cccccc", at=NOW - DAY, parent_id=_FIRST, relation="branch"),
        an_open_line("20260103_000000_dddddd", at=past),
        an_open_line(_LEFT, at=past),
    ]
    with holdfast.open(root, create=True, clock=lambda: NOW) as home:
        home.import_(io.BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in lines)))
        home.need_store().hold(_LEFT, a_dead_holder(), now=past)
    (root / "sessions").mkdir()
    for number, name in enumerate((f"{_FIRST}.jsonl", f"session_{_SECOND}.json", "sessions.json")):
        path = root / "sessions" / name
        path.write_text("{}\n")
        path.chmod((0o600, 0o640, 0o444)[number])
        os.utime(path, ns=(int(past * 1e9) + number, int(past * 1e9) + number))
    link = root / "sessions" / f"request_dump_{_FIRST}_1.json"
    link.symlink_to("/nowhere/outside")
    os.utime(link, (past, past), follow_symlinks=False)


def _touch_own(home: Home, name: str) -> None:
    home.sessions.reopen(name)
    home.sessions.append(name, {"role": "user", "content": "one more thing"})
    home.sessions.end(name)
    put_away(home)


def _renew_own(root: Path) -> None:
    with closing(sqlite3.connect(root / "sessions.db")) as db:
        db.execute("PRAGMA user_version = 9999")


def make_shared(root: Path, url: str | None = None) -> None:
    """The same in a database that other machines could use too."""
    root.mkdir(parents=True)
    (root / "config.toml").write_text(f'[store]\nurl = "{url or postgres.a_database()}"\n')
    _make_own(root)


def address_of(root: Path) -> str:
    return str(tomllib.loads((root / "config.toml").read_text())["store"]["url"])


def _look_at_shared(home: Home) -> Look:
    seen = look_at_sessions(home)
    rows = postgres.rows_of(address_of(home.path))
    return seen | {f"postgres.db:{table}": each for table, each in rows.items()}


def _renew_shared(root: Path) -> None:
    postgres.execute(address_of(root), "INSERT INTO holdfast.migrations (number) VALUES (9999)")


_OWN = Sample(
    make=_make_own,
    plan=lambda home, **how: home.plan_prune(older_than="90d", **how),
    look=look_at_sessions,
    ids=session_ids,
    touch=_touch_own,
    revive=lambda home, name: home.sessions.reopen(name),
    pin=lambda home, name: home.sessions.pin(name),
    renew=_renew_own,
    reads_newer=False,
    database="sessions.db",
    renumbers=True,
    ends=True,
    state=".",
)


_SHARED = replace(
    _OWN,
    make=make_shared,
    look=_look_at_shared,
    renew=_renew_shared,
    database=None,
    elsewhere=True,
)


def _make_own_checkpoints(root: Path) -> None:
    """Five checkpoints of one project."""
    project = root.with_name("project")
    project.mkdir()
    for number in range(5):
        (project / "file").write_text(f"{number}\n")
        with holdfast.open(root, create=True, clock=lambda: NOW - 10 + number) as home:  # noqa: B023
            home.checkpoints.take(project, reason=f"turn {number}")


_OWN_CHECKPOINTS = Sample(
    make=_make_own_checkpoints,
    plan=lambda home: home.checkpoints.plan_prune(keep_last=2, older_than="0s"),
    look=look_at_checkpoints,
    ids=checkpoint_ids,
    kind=CHECKPOINT,
    pin=lambda home, name: home.checkpoints.pin(name),
    state=".",
)


# --- Hermes ---------------------------------------------------------------------------------------


def _make_hermes(root: Path) -> None:
    hermes_sessions.recorded(root.parent).rename(root)


def _make_hermes_many(root: Path) -> None:
    """With so many messages, in one that goes and in one that stays, that a run indexes them beside
    the database."""
    _make_hermes(root)
    with hermes_sessions.database(root) as db:
        for name in (min(hermes_sessions.OLD), max(hermes_sessions.LIVING)):
            db.execute(
                """
                WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 520)
                INSERT INTO messages (session_id, role, content, timestamp)
                SELECT s.id, 'user', 'word' || i, s.started_at + 1 FROM n JOIN sessions s
                WHERE s.id = ?
                """,
                (name,),
            )
            db.execute(
                "UPDATE sessions SET message_count = message_count + 520 WHERE id = ?", (name,)
            )


def _touch_hermes(home: Home, name: str) -> None:
    with hermes_sessions.database(home.path) as db:
        db.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 1)",
            (name, "one more thing"),
        )


def _revive_hermes(home: Home, name: str) -> None:
    me = psutil.Process()
    entry = {"session_id": name, "pid": me.pid, "process_start_time": me.create_time()}
    (home.path / "runtime").mkdir()
    (home.path / "runtime" / "active_sessions.json").write_text(json.dumps({"entries": [entry]}))


def _renew_hermes(root: Path) -> None:
    with hermes_sessions.database(root) as db:
        db.execute("UPDATE schema_version SET version = 9999")


_HERMES = Sample(
    make=_make_hermes,
    plan=lambda home, **how: home.plan_prune(older_than="90d", **how),
    look=look_at_sessions,
    ids=session_ids,
    now=hermes_sessions.NOW,
    touch=_touch_hermes,
    revive=_revive_hermes,
    renew=_renew_hermes,
    database="state.db",
    ends=True,
    whole=hermes_sessions.whole,
)


_HERMES_MANY = replace(_HERMES, make=_make_hermes_many)


def _make_hermes_checkpoints(root: Path) -> None:
    hermes_store.recorded(root.parent)


_HERMES_CHECKPOINTS = Sample(
    make=_make_hermes_checkpoints,
    plan=lambda home: home.checkpoints.plan_prune(keep_last=2, older_than="0s"),
    look=look_at_checkpoints,
    ids=checkpoint_ids,
    kind=CHECKPOINT,
    now=hermes_store.START + 12 * hermes_store.HOUR,
    pin=lambda home, name: home.checkpoints.pin(name),
)


# --- Formats --------------------------------------------------------------------------------------


def _make_marmot(root: Path) -> None:
    """Three chats that can go, one of them a delegate, and one that was used lately."""
    sample_format.make_home(root, ("aa01", "bb02", "bb02-sub", "cc03"), at=NOW - 200 * DAY)
    os.utime(root / "chats" / "cc03.jsonl", (NOW - 30 * DAY, NOW - 30 * DAY))


def touch_marmot(root: Path, name: str) -> None:
    path = root / "chats" / f"{name}.jsonl"
    status = path.stat()
    with path.open("a") as file:
        file.write('{"role": "user", "text": "more", "at": 1}\n')
    os.utime(path, (status.st_atime, status.st_mtime + 1))


_MARMOT = Sample(
    make=_make_marmot,
    plan=lambda home, **how: home.plan_prune(older_than="90d", **how),
    look=look_at_sessions,
    ids=session_ids,
    touch=lambda home, name: touch_marmot(home.path, name),
    pin=lambda home, name: home.sessions.pin(name),
    revive=lambda home, name: (home.path / "pids" / name).write_text(str(os.getpid())),
    renew=lambda root: (root / "VERSION").write_text("99\n"),
    database="marmot.db",
)


def _agent(recorded: AgentHome) -> Sample:
    """A recorded home. All its sessions are old; the last one stays."""
    return Sample(
        make=recorded.make,
        plan=lambda home, **how: home.plan_prune(older_than="90d", keep_last=1, **how),
        look=look_at_sessions,
        ids=agent_homes.session_ids,
        now=agent_homes.NOW,
        touch=recorded.touch,
        revive=recorded.revive,
        pin=lambda home, name: home.sessions.pin(name),
        renew=recorded.renew,
        database=recorded.database,
        word="Noted",
    )


def _bundles(sample: Sample) -> Sample:
    """The archive of a home, all its old sessions in it."""

    def make(root: Path) -> None:
        sample.make(root)
        with holdfast.open(root, clock=lambda: sample.now, command=SETTING_UP) as home:
            old = [each.id for each in sample.plan(home).removals if each.kind == SESSION]
            home.archive_sessions(old)

    return replace(
        sample,
        make=make,
        plan=lambda home: home.archive.plan_prune(max_count=1),
        look=look_at_bundles,
        ids=bundle_ids,
        kind=ARCHIVED,
        renumbers=False,
        ends=False,
        whole=None,
        touch=None,
        revive=None,
        pin=None,
        renew=None,
        database=None,
    )


def _on_objects(sample: Sample) -> Sample:
    """The same home with its archive on an object store."""

    def make(root: Path) -> None:
        os.environ.update(CREDENTIALS)
        place = an_address(rclone().endpoint)
        sample.make(root)
        config = root / sample.state / "config.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(f'[archive]\nurl = "{place.url}"\nendpoint = "{place.endpoint}"\n')

    return replace(sample, make=make, objects=True)


#: Formats that a package would bring.
FORMATS = (sample_format.MarmotFormat,)

HOMES = {
    "own": _OWN,
    "own-postgres": _SHARED,
    "hermes": _HERMES,
    "hermes-many": _HERMES_MANY,
    "marmot": _MARMOT,
    **{each.name: _agent(each) for each in RECORDED},
    "own-archive": _bundles(_OWN),
    "own-postgres-archive": _bundles(_SHARED),
    "hermes-archive": _bundles(_HERMES),
    "marmot-archive": _bundles(_MARMOT),
    "marmot-objects": _on_objects(_MARMOT),
    "own-objects-archive": _bundles(_on_objects(_OWN)),
    "own-checkpoints": _OWN_CHECKPOINTS,
    "hermes-checkpoints": _HERMES_CHECKPOINTS,
}
#: Those that real agents made.
AGENTS = tuple(each.name for each in RECORDED)
#: Those that need a server.
ELSEWHERE = tuple(name for name, sample in HOMES.items() if sample.elsewhere or sample.objects)
#: Those whose sessions can go.
SESSION_HOMES = [name for name, sample in HOMES.items() if sample.kind == SESSION]


# --- Session stores -------------------------------------------------------------------------------

#: How to open an empty store in a folder that does not exist yet.
SESSION_STORES: dict[str, Callable[[Path], SessionStore]] = {
    "sqlite": lambda folder: SqliteSessionStore(folder / "sessions.db"),
    "postgres": lambda _: PostgresSessionStore(postgres.a_database()),
}


# --- Blobs ----------------------------------------------------------------------------------------


def _folder(place: Path, _: pytest.MonkeyPatch) -> Blobs:
    return FolderBlobs(place / "blobs")


def _folder_without_links(place: Path, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    """As on a FAT file system."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    return FolderBlobs(place / "blobs")


def _objects(_: Path, __: pytest.MonkeyPatch) -> Blobs:
    return ObjectBlobs(Bucket())


def _s3(endpoint: Callable[[], str]) -> Callable[[Path, pytest.MonkeyPatch], Blobs]:
    def made(_: Path, monkeypatch: pytest.MonkeyPatch) -> Blobs:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        return S3Blobs(an_address(endpoint()), patience=HASTY)

    return made


BLOBS: dict[str, Callable[[Path, pytest.MonkeyPatch], Blobs]] = {
    "folder": _folder,
    "folder without hard links": _folder_without_links,
    "object store": _objects,
    "rclone": _s3(lambda: rclone().endpoint),
    "moto": _s3(moto),
}
