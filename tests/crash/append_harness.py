"""Kill a process at every call while it stores messages, or brings in sessions of others.

`python -m tests.crash.append_harness SCENARIO EVERY`, in the manner of `harness`. What was
acknowledged is told in a file beside the home.
"""

from __future__ import annotations

import io
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.api.sessions import open_sessions
from holdfast.model.session import Message, SessionFilter
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.services.exchange.importing import import_sessions
from holdfast.services.sessions import Sessions
from holdfast.stores.sqlite.importing import SqliteImport
from tests.crash.harness import NOW, Tally, clock, run_killed
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


SCENARIOS = {"append": Scenario(talk, after_talk), "import": Scenario(bring, after_import)}


def main(name: str, every: str) -> None:
    scenario, tally = SCENARIOS[name], Tally()
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as scratch:
        pattern, root = Path(scratch) / "pattern", Path(scratch) / "world"
        make(pattern)
        for kill_at in itertools.count(1, int(every)):
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(pattern, root)
            through = run_killed(scenario.killed, root, kill_at)
            tally.kills += not through
            scenario.verify(root)
            tally.states += 1
            if through:
                break
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
