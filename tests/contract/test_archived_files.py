"""What a reset puts away is in the archive like all the rest: seen, bounded, restored, removed."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import StorageError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import ArchiveOptions
from holdfast.model.archive import Holds
from holdfast.model.item import ARCHIVED, ARCHIVED_FILES
from holdfast.model.plan import Plan
from holdfast.model.report import Report, Result
from holdfast.model.session import Message, Search, SessionFilter
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.policy.rules import DAY, Caps, Files, GcRules, Limits, Policy, Rules
from holdfast.policy.session_filter import Selection
from holdfast.services.exchange.session_import import import_sessions
from holdfast.services.exchange.session_line import session_line
from holdfast.services.plans import (
    plan_archive,
    plan_delete,
    plan_home_gc,
    plan_prune,
    plan_prune_archive,
)
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo, undo_latest
from holdfast.stores.archive.catalogue import Catalogue
from holdfast.stores.archive.codec import codec_of
from holdfast.stores.line_file import LineFile
from tests.archiving import NOW, archive, clock, opened

#: Said by the user, sent to the model: nothing else in a home looks like it.
SAID, SENT = "xylophonesaid", "quagmiresent"
OPTIONS = SessionOptions(transcripts={"default": Transcript.JSONL})
ANY = SessionFilter()


def reset_once(root: Path, said: str = SAID) -> str:
    """A session that was reset, with a transcript and a request dump; its id."""
    with open_sessions(root, options=OPTIONS, clock=clock) as sessions:
        old = sessions.current("key", source="cli")
        sessions.append(old.id, Message(role="user", content=f"{said} {'more ' * 300}"))
        sessions.append(old.id, Message(role="user", content=f"short {said}"))
        sessions.dump_request(old.id, {"model": f"{SENT} {'more ' * 300}"})
        sessions.reset("key")
    return old.id


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


def session_files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "sessions").iterdir()}


def everywhere(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a home; of what is compressed, also what it holds."""
    for path in root.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        yield str(path), content
        codec = codec_of(path.name)
        if codec is not None or ".trash" in path.parts:
            found = codec or codec_of(path.name.partition("-")[2])
            assert found is not None
            with path.open("rb") as raw, found.reader(raw) as unpacked:
                yield f"{path}, unpacked", unpacked.read()
        elif content[:2] == b"\x1f\x8b":
            yield f"{path}, unpacked", gzip.decompress(content)


def holding(root: Path, *markers: str) -> set[str]:
    """Which files of a home hold one of these words."""
    return {
        path
        for path, content in everywhere(root)
        if any(marker.encode() in content for marker in markers)
    }


def carried_out(plan: Plan, home: HoldfastHome, *, at: float = NOW) -> Report:
    report = apply(plan, home, clock=lambda: at)
    assert not report.failed, report.outcomes
    return report


def delete(home: HoldfastHome, name: str, *, undoable: bool = True) -> Report:
    made = plan_delete(home, [name], now=NOW, command="delete", undoable=undoable)
    return carried_out(made, home)


def prune(home: HoldfastHome, *, files: Files = Files.WITH, undoable: bool = True) -> Report:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=DAY)), use_trash=undoable)
    later = NOW + 5 * DAY
    made, _ = plan_prune(
        home, policy, now=later, command="prune", selection=Selection(), files=files
    )
    return carried_out(made, home, at=later)


def bundles(home: HoldfastHome) -> list[tuple[str, Holds]]:
    return [(each.session.id, each.holds) for each in home.archive.find(ANY)]


# --- Put away, and back ---------------------------------------------------------------------------


def test_a_killed_undo_leaves_no_catalogue_that_it_had_begun(root: Path) -> None:
    """The files were back and the bundle was gone when it was killed, and settled, and killed."""
    reset_once(root)
    home = opened(root)
    undo(home, "1", clock=clock)
    before = session_files(root)
    record = root / "operations" / "2.jsonl"
    announced = [line for line in record.read_text().splitlines() if '"outcome"' not in line]
    record.write_text("".join(f"{line}\n" for line in announced if "finished_at" not in line))
    begun = root / "archive" / ".catalogue.jsonl.tmp"
    begun.write_bytes(b'{"id"')
    settle_if_needed(opened(root), clock=clock)
    [_, settled] = opened(root).log.read().operations
    assert settled.finished_at is not None
    assert not begun.exists()
    assert session_files(root) == before


def test_what_goes_for_good_leaves_no_line_though_a_rewrite_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.jsonl"
    path.write_bytes(b'{"gone":"xylophone.tar.zst","operation":"1"}\n')
    (tmp_path / ".catalogue.jsonl.tmp").write_bytes(b'{"id"')
    Catalogue(LineFile(path)).forget_gone()
    assert path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("way", ["undo", "restore"])
def test_a_reset_makes_one_bundle_that_comes_back(root: Path, way: str) -> None:
    with open_sessions(root, options=replace(OPTIONS, on_reset=OPTIONS.on_reset), clock=clock) as s:
        old = s.current("key", source="cli")
        s.append(old.id, Message(role="user", content=SAID))
        s.dump_request(old.id, {"model": SENT})
        before = session_files(root)
        assert len(before) == 2
        s.reset("key")
    home = opened(root)
    assert session_files(root) == {}
    assert bundles(home) == [(old.id, Holds.FILES)]
    assert sorted(path.name for path in (root / "archive").iterdir()) == [
        f"{old.id}.files.tar.zst",
        "catalogue.jsonl",
    ]
    if way == "undo":
        _, report = undo(home, "1", clock=clock)
    else:
        report = restore(home, chosen(home.archive, [old.id]), command="restore", clock=clock)
    assert (report.brought_back, report.failed) == (1, 0)
    assert session_files(root) == before
    assert bundles(home) == []
    with open_sessions(root, options=OPTIONS, clock=clock) as sessions:
        assert sessions.get(old.id).end_reason == "session_reset"


def test_resets_of_one_session_do_not_hide_each_other(root: Path) -> None:
    """Reopened, it gets a second transcript of the same name: both stay."""
    old = reset_once(root)
    with open_sessions(root, options=OPTIONS, clock=clock) as sessions:
        store = sessions._store
        sessions.reopen(old)
        store.route("key", old)
        sessions.append(old, Message(role="user", content="later"))
        sessions.reset("key")
    home = opened(root)
    assert bundles(home) == [(old, Holds.FILES)] * 2
    report = restore(home, chosen(home.archive, [old]), command="restore", clock=clock)
    assert (report.brought_back, report.failed) == (1, 1)
    assert b"later" in session_files(root)[f"{old}.jsonl"]
    assert "differs from the archived file" in report.outcomes[1].reason
    assert bundles(home) == [(old, Holds.FILES)]


def test_a_session_without_files_makes_no_bundle(root: Path) -> None:
    with open_sessions(root, clock=clock) as sessions:
        sessions.current("key", source="cli")
        sessions.reset("key")
    assert not (root / "archive").exists()
    assert opened(root).log.read().operations == ()


# --- Seen -----------------------------------------------------------------------------------------


def test_it_is_counted_with_its_session(root: Path) -> None:
    old = reset_once(root)
    home = opened(root)
    inventory = home.scan(NOW)
    [item] = [each for each in inventory.items if each.kind == ARCHIVED_FILES]
    assert (item.session, item.owned) == (old, True)
    assert item.bytes > 0
    assert inventory.archived == 0


def test_what_is_in_the_store_is_found_there_and_not_twice(root: Path) -> None:
    old = reset_once(root)
    home = opened(root)
    assert home.archive.search(Search(text=SAID, wanted=ANY)).hits == ()
    store = home.session_store()
    assert store is not None
    assert [hit.session.id for hit in store.search(Search(text=SAID, wanted=ANY))] == [old] * 2


def test_files_whose_session_is_gone_are_still_found(root: Path) -> None:
    old = reset_once(root)
    home = opened(root)
    prune(home, files=Files.NONE)
    assert bundles(home) == [(old, Holds.FILES)]
    hits = home.archive.search(Search(text=SAID, wanted=ANY)).hits
    assert [(hit.session.id, hit.message.role) for hit in hits] == [(old, "user")] * 2
    assert home.scan(NOW).archived == 1


# --- Removed with its session ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["delete", "prune", "gc"])
def test_it_goes_and_comes_back_with_its_session(root: Path, way: str) -> None:
    old = reset_once(root)
    home = opened(root)
    if way == "delete":
        report = delete(home, old)
    elif way == "prune":
        report = prune(home)
    else:
        later = NOW + 30 * DAY
        made, _ = plan_home_gc(
            home, GcRules(), Policy(), now=later, command="gc", wanted=SessionFilter()
        )
        report = carried_out(made, home, at=later)
    assert {each.kind for each in report.outcomes if each.result == "removed"} >= {
        "session",
        ARCHIVED_FILES,
    }
    assert bundles(home) == []
    assert holding(root, SENT), "it waits in the trash"
    undo_latest(home, clock=clock)
    assert bundles(home) == [(old, Holds.FILES)]
    apply(plan_empty(home, now=NOW, command="empty"), home, clock=clock)
    assert bundles(home) == [(old, Holds.FILES)]


@pytest.mark.parametrize("before", ["reset", "trashed files", "archived", "replaced", "legacy"])
def test_what_is_deleted_now_is_gone_everywhere(root: Path, before: str) -> None:
    """Whatever a home did with a session before: not one file has a word of it."""
    old = reset_once(root)
    reset_once(root, "somethingelse")
    for number in range(8):  # so many that the catalogue is not written anew for its own sake
        reset_once(root, f"other{number}")
    home = opened(root)
    home.create_session_store().rename(old, f"about {SAID}")
    if before == "trashed files":
        restore(home, chosen(home.archive, [old]), command="restore", clock=clock)
        prune(home, files=Files.ONLY)
    elif before == "archived":
        made, _ = plan_archive(
            home, home.archive, ids=[old], policy=Policy(), now=NOW, command="archive"
        )
        carried_out(made, home)
    elif before == "replaced":
        replace_session(home, old)
    elif before == "legacy":
        put_legacy_file(root, old, f'{{"role": "user", "content": "{SAID} legacy"}}\n')
        home.doer(ARCHIVED).prepare(())
    assert holding(root, SAID)
    delete(home, old, undoable=False)
    store = home.session_store()
    assert store is not None
    store.close()
    assert holding(root, SAID) == set()
    assert holding(root, "somethingelse"), "the other one stays"


def test_without_its_archive_nothing_is_deleted_for_good(root: Path, tmp_path: Path) -> None:
    old = reset_once(root)
    disk = tmp_path / "disk"
    home = opened(root, ArchiveOptions(folder=str(disk)))
    made, _ = plan_archive(
        home, home.archive, ids=[old], policy=Policy(), now=NOW, command="archive"
    )
    carried_out(made, home)
    undo_latest(home, clock=clock)
    disk.rename(tmp_path / "not mounted")
    with pytest.raises(StorageError, match="does not exist"):
        plan_delete(home, [old], now=NOW, command="delete", undoable=False)
    assert delete(home, old).removed == 1


def replace_session(home: HoldfastHome, name: str) -> None:
    line = {"id": name, "source": "cli", "started_at": NOW - 5, "ended_at": NOW, "messages": []}
    with home.replacing("sessions import") as kept:
        raw = iter([json.dumps(line).encode() + b"\n"])

        class Lines:
            def readline(self, _size: int = -1, /) -> bytes:
                return next(raw, b"")

        report = import_sessions(home.own.importing(kept.keep), Lines(), replace=True, now=NOW)
    assert report.replaced == 1


# --- What an import replaces ----------------------------------------------------------------------


def test_what_an_import_replaces_is_archived_and_comes_back(root: Path) -> None:
    old = reset_once(root)
    home = opened(root)
    store = home.create_session_store()
    before = [message.content for message in store.messages(old)]
    replace_session(home, old)
    assert (old, Holds.SESSION) in bundles(home)
    assert store.get(old).message_count == 0
    [operation] = [each for each in home.log.read().operations if each.command.endswith("import")]
    assert (operation.removed, operation.failed) == (1, 0)
    _, report = undo(home, operation.id, clock=clock)
    assert "delete the one in the store first" in report.outcomes[0].reason
    delete(home, old)
    assert bundles(home) == [(old, Holds.SESSION)]
    undo(home, operation.id, clock=clock)
    assert [message.content for message in store.messages(old)] == before


@pytest.mark.parametrize("way", ["archive", "trash"])
def test_a_session_that_only_looks_the_same_takes_no_place(root: Path, way: str) -> None:
    """An import of a redacted export has the same times and counts, and other words."""
    old = reset_once(root)
    home = opened(root)
    store = home.create_session_store()
    [line] = io.StringIO("".join(session_line(store.get(old), store.messages(old)))).readlines()
    redacted = io.BytesIO(line.replace(SAID, "redactedword").encode())
    operation = ""
    if way == "archive":
        with home.replacing("sessions import") as kept:
            import_sessions(home.own.importing(kept.keep), redacted, replace=True, now=NOW)
        report = restore(home, chosen(home.archive, [old]), command="restore", clock=clock)
    else:
        operation = delete(home, old).operation or ""
        import_sessions(home.own.importing(), redacted, replace=False, now=NOW)
        _, report = undo(home, operation, clock=clock)
    assert [each.id for each in report.outcomes if each.result == "failed"] in (
        [f"{old}.tar.zst"],
        [old],
    )
    delete(home, old)
    if way == "archive":
        restore(home, chosen(home.archive, [old]), command="restore", clock=clock)
    else:
        undo(home, operation, clock=clock)
    assert str(next(store.messages(old)).content).startswith(SAID)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"end_reason": "other"},
        {"source": "cron"},
        {"mine": "fact"},
        {"tokens": 7},
        {"cost": 0.5},
    ],
)
def test_undoing_an_archive_drops_the_bundle_only_for_the_very_same_session(
    root: Path, change: dict[str, object]
) -> None:
    """An import has taken its place: with the same words, and with all facts or with others."""
    old = reset_once(root)
    home = opened(root)
    store = home.create_session_store()
    line = json.loads("".join(session_line(store.get(old), store.messages(old))))
    report = archive(home, old)
    changed = line["messages"][0] if change.keys() & {"tokens", "cost"} else line
    changed.update(change)
    import_sessions(
        home.own.importing(), io.BytesIO(json.dumps(line).encode()), replace=False, now=NOW
    )
    _, undone = undo(home, report.operation or "", clock=clock)
    [outcome] = [each for each in undone.outcomes if each.id == old]
    assert outcome.result is (Result.FAILED if change else Result.BROUGHT_BACK)
    assert ((old, Holds.SESSION) in bundles(home)) == bool(change)


def test_a_replacement_that_fails_leaves_no_bundle(root: Path) -> None:
    old = reset_once(root)
    home = opened(root)
    store = home.create_session_store()

    def interrupted() -> None:
        with home.replacing("sessions import") as kept, store.transaction():
            kept.keep(store.get(old), store.messages(old))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (old, Holds.SESSION) not in bundles(home)
    assert store.get(old).message_count == 2
    assert all(each.finished_at is not None for each in home.log.read().operations)


# --- Bounded --------------------------------------------------------------------------------------


def test_the_bounds_of_the_archive_hold_for_it(root: Path) -> None:
    reset_once(root)
    home = opened(root)
    by_age = Policy(everywhere=Limits(rules=Rules(max_age=DAY)))
    made, _ = plan_prune_archive(home, by_age, now=NOW + 5 * DAY, command="prune", wanted=ANY)
    assert [item.kind for item in made.removals] == [ARCHIVED_FILES]
    by_size = Policy(everywhere=Limits(caps=Caps(max_bytes=1)))
    made, _ = plan_prune_archive(home, by_size, now=NOW, command="prune", wanted=ANY)
    assert made.shortfalls, "the newest stays, and the plan says so"
    carried_out(
        plan_prune_archive(home, by_age, now=NOW + 5 * DAY, command="p", wanted=ANY)[0], home
    )
    assert bundles(home) == []


# --- Left by earlier versions ---------------------------------------------------------------------


def put_legacy_file(root: Path, session_id: str, text: str, number: str = "") -> Path:
    path = root / "archive" / f"{session_id}.jsonl{number}.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_files_of_earlier_versions_are_taken_in(root: Path) -> None:
    old = reset_once(root)
    home = opened(root)
    said = f'{{"session_id": "{old}", "role": "user", "content": "in a file"}}\n'
    left = [put_legacy_file(root, old, said), put_legacy_file(root, old, "second", ".2")]
    gone = "20260101_000000_abcdef"
    left.append(put_legacy_file(root, gone, said.replace(old, gone)))
    line = {"id": "replaced", "source": "cli", "started_at": NOW - 9}
    messages = [{"role": "user", "content": "before"}]
    jsonl = root / "archive" / "replaced_20260325_112518.jsonl"
    jsonl.write_text(json.dumps({**line, "messages": messages}) + "\n")
    foreign = root / "archive" / "notes.gz"
    foreign.write_bytes(b"not ours")
    torn = root / "archive" / "20260101_000000_abcdee.jsonl.gz"
    torn.write_bytes(gzip.compress(b"torn")[:-3])
    assert {Path(each.path) for each in home.archive.problems()} == {*left, jsonl, torn}
    home.doer(ARCHIVED).prepare(())
    assert not any(path.exists() for path in (*left, jsonl))
    assert foreign.exists()
    assert torn.exists(), "what cannot be read is not thrown away"
    assert sorted(bundles(home)) == sorted(
        [
            (old, Holds.FILES),
            (old, Holds.FILES),
            (old, Holds.FILES),
            (gone, Holds.FILES),
            ("replaced", Holds.SESSION),
        ]
    )
    [hit] = home.archive.search(Search(text="file", wanted=ANY)).hits
    assert hit.session.id == gone
    report = restore(home, chosen(home.archive, ["replaced"]), command="restore", clock=clock)
    assert report.brought_back == 1
    store = home.session_store()
    assert store is not None
    assert [message.content for message in store.messages("replaced")] == ["before"]


def test_taking_them_in_can_be_killed_and_repeated(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = reset_once(root)
    left = put_legacy_file(root, old, "text")
    home = opened(root)

    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path == left:
            raise OSError(5, "killed here")
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        home.doer(ARCHIVED).prepare(())
    assert left.exists()
    again = opened(root)
    again.doer(ARCHIVED).prepare(())
    assert not left.exists()
    assert bundles(again) == [(old, Holds.FILES)] * 2
