"""Kill a process at every call while it stores or replaces messages, or brings in sessions.

`python -m tests.crash.append_harness SCENARIO EVERY`, in the manner of `harness`. What was
acknowledged is told in a file beside the home.
"""

from __future__ import annotations

import io
import itertools
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.sessions import open_sessions
from holdfast.model.session import Message, SessionFilter
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.services.exchange.session_import import import_sessions
from holdfast.services.sessions import Sessions
from holdfast.stores.sqlite import totals
from holdfast.stores.sqlite.session_import import SqliteImport
from tests.crash.harness import NEVER, NOW, Tally, clock, points_of, run_killed, scratch
from tests.stored import a_line, bring_in, check_whole, opened

#: The second is long enough to be packed, and more than one page.
BATCHES = (["one"], ["two", "three " + "lorem ipsum " * 2_000, "four"], ["five"])
LINES = [
    a_line(name, at=NOW - 99, messages=3, size=size)
    for name, size in (("first", 40), ("large", 20_000), ("last", 40))
]


def sessions(root: Path) -> Sessions:
    options = SessionOptions(transcripts={"default": Transcript.JSONL_SYNCED})
    return open_sessions(root / "home", options=options, clock=clock)


def told(root: Path) -> list[str]:
    path = root / "told"
    return path.read_text().splitlines() if path.exists() else []


def tell(root: Path, word: str) -> None:
    with (root / "told").open("a") as file:
        file.write(word + "\n")


def make(root: Path) -> None:
    bring_in(root / "home", [a_line("before", at=NOW - 999, messages=2)], now=NOW)


def talk(root: Path) -> None:
    with sessions(root) as open_now:
        open_now.create(source="cli", id="new")
        tell(root, "created")
        for batch in BATCHES:
            open_now.append("new", *(Message(role="user", content=text) for text in batch))
            tell(root, batch[0])
        open_now.end("new")
        tell(root, "ended")


def bring(root: Path) -> None:
    with opened(root / "home") as store:
        stream = io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in LINES))
        report = import_sessions(SqliteImport(store, None), stream, replace=False, now=NOW)
        assert not report.refused
    tell(root, "imported")


def edit(root: Path) -> None:
    """A turn that is tried again, a summary, and another model, in a session with usage."""
    with sessions(root) as open_now:
        open_now.create(source="cli", id="new", model="first")
        first = open_now.append("new", *(_used(text) for text in ("one", "two", "three")))
        tell(root, "said")
        open_now.replace_messages("new", [_used("again")], after=first.numbers[1])
        tell(root, "tried again")
        kept = list(open_now.messages("new", last=1))
        open_now.compact("new", [Message("system", "summary"), *kept])
        tell(root, "compacted")
        open_now.update("new", model="second")
        tell(root, "updated")
        open_now.append("new", _used("last"))
        tell(root, "last")


def _used(text: str) -> Message:
    return Message("assistant", text, tokens=10, cost=0.5)


#: After each step: what is the conversation, what all messages are, how many messages count, and
#: by which model how many tokens were used.
EDITS: tuple[tuple[tuple[str, ...], tuple[str, ...], int, dict[str, int]], ...] = (
    ((), (), 0, {}),
    (("one", "two", "three"), ("one", "two", "three"), 3, {"first": 30}),
    (("one", "two", "again"), ("one", "two", "three", "again"), 3, {"first": 40}),
    (("summary", "again"), ("one", "two", "three", "summary", "again"), 4, {"first": 40}),
    (("summary", "again"), ("one", "two", "three", "summary", "again"), 4, {"first": 40}),
    (
        ("summary", "again", "last"),
        ("one", "two", "three", "summary", "again", "last"),
        5,
        {"first": 40, "second": 10},
    ),
)


def after_edit(root: Path) -> None:
    """Each step is there whole or not at all, and everything that counts agrees with it."""
    check_whole(root / "home")
    acknowledged = told(root)
    if "new" not in there(root):
        assert not acknowledged
        return
    with opened(root / "home") as store:
        messages = list(store.messages("new"))
        spent = {entry.model: entry.usage.tokens.total for entry in store.usage_entries()}
        session = store.get("new")
        with store.database.write() as db:
            totals.tally(db, lambda _: None)
            assert totals.wrong(db) == (0, None)
    spent.pop(None, None)  # the session that was there before
    found = (
        tuple(each.content for each in messages if not each.replaced),
        tuple(each.content for each in messages),
        session.message_count,
        spent,
    )
    assert found in EDITS, "a step is there in part"
    least = len(acknowledged)
    assert found in (EDITS[least], EDITS[min(least + 1, len(EDITS) - 1)]), "acknowledged, and lost"


def texts(root: Path, session: str) -> list[str]:
    with opened(root / "home") as store:
        return [str(message.content) for message in store.messages(session)]


def there(root: Path) -> set[str]:
    with opened(root / "home") as store:
        return {session.id for session in store.find(SessionFilter())}


def after_talk(root: Path) -> None:
    """Batches are there whole, in order, as many as were acknowledged, or one more."""
    check_whole(root / "home")
    assert len(texts(root, "before")) == 2
    acknowledged = told(root)
    if "new" not in there(root):
        assert not acknowledged
        return
    found = texts(root, "new")
    heads = [batch[0] for batch in BATCHES]
    whole = [list(itertools.chain(*BATCHES[:count])) for count in range(len(BATCHES) + 1)]
    assert found in whole, "a batch is there in part"
    least = sum(word in heads for word in acknowledged)
    assert whole.index(found) in (least, least + 1), "acknowledged, and lost"
    _check_transcript(root, acknowledged, found)
    with sessions(root) as again:
        assert again.get("new").ended or "ended" not in acknowledged
        again.reopen("new")
        again.append("new", Message(role="user", content="after"))
    assert texts(root, "new") == [*found, "after"]
    check_whole(root / "home")


def _check_transcript(root: Path, acknowledged: list[str], found: list[str]) -> None:
    """It follows the database: what was acknowledged is in it, and nothing that is not stored."""
    path = root / "home" / "sessions" / "new.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    said = [json.loads(line)["content"] for line in lines if line.endswith(b"\n")]
    assert said == found[: len(said)]
    wanted = sum(len(batch) for batch in BATCHES if batch[0] in acknowledged)
    assert len(said) >= wanted, "acknowledged, and not in the transcript"


def after_import(root: Path) -> None:
    """Each session is there whole or not at all; the same file brings the rest."""
    check_whole(root / "home")
    for line in LINES:
        if line["id"] in there(root):
            assert texts(root, line["id"]) == [each["content"] for each in line["messages"]]
        else:
            assert not told(root)
    bring(root)
    assert there(root) == {"before", *(line["id"] for line in LINES)}
    check_whole(root / "home")


@dataclass(frozen=True)
class Scenario:
    killed: Callable[[Path], None]
    verify: Callable[[Path], None]


SCENARIOS = {
    "append": Scenario(talk, after_talk),
    "replace": Scenario(edit, after_edit),
    "import": Scenario(bring, after_import),
}


def main(name: str, every: str) -> None:
    scenario, tally = SCENARIOS[name], Tally()
    with scratch() as place:
        pattern, root = place / "pattern", place / "world"
        make(pattern)
        shutil.copytree(pattern, root)
        for kill_at in (*points_of(scenario.killed, root)[:: int(every)], NEVER):
            shutil.rmtree(root)
            shutil.copytree(pattern, root)
            through = run_killed(scenario.killed, root, kill_at)
            tally.kills += not through
            scenario.verify(root)
            tally.states += 1
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
