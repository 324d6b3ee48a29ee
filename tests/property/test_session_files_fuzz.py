"""Whatever lies in `sessions/`: a scan ends, and what it does not know for sure it leaves alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.sessions import folder as session_folder
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.spine.apply import apply
from tests import tally
from tests.property.damage import JSON, changed, damaged

#: Far from when the files are made: all of them are old.
NOW = 4_000_000_000.0
KNOWN = "20260325_112518_6995d1"
TRANSCRIPT = {"session_id": "mine", "source": "telegram", "messages": [{"role": "user"}]}
NAMES = st.sampled_from(
    [
        f"session_{KNOWN}.json",
        f"{KNOWN}.jsonl",
        f"request_dump_{KNOWN}_20260325_112519.json",
        "request_dump_mine_20260325_112519.json",
        "session_mine.json",
        "mine.jsonl",
        "sessions.json",
        "notes.txt",
    ]
) | st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name not in (".", ".."))
CONTENTS = (
    changed(TRANSCRIPT)
    | damaged(json.dumps(TRANSCRIPT).encode())
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=80)
)


@given(st.dictionaries(NAMES, CONTENTS, max_size=5))
def test_any_files_are_scanned_and_strangers_stay(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "sessions").mkdir()
        for file, content in files.items():
            (root / "sessions" / file).write_bytes(content)
        home = HoldfastHome(root, clock=lambda: NOW, idle=DAY)
        found = home.scan(NOW)
        ours = {item.id.removeprefix("sessions/") for item in found.items}
        assert ours <= files.keys()
        for file in ours:
            _check_ours(file, files[file])
        policy = Policy(everywhere=Limits(rules=Rules(max_age=DAY)), use_trash=False)
        made = plan(policy, found, NOW, command="sessions prune")
        apply(made, home, clock=lambda: NOW)
        left = {path.name: path.read_bytes() for path in (root / "sessions").iterdir()}
        assert left == {file: data for file, data in files.items() if file not in ours}
        tally.verified()


def _check_ours(file: str, content: bytes) -> None:
    parsed = session_folder.parse(file)
    assert parsed is not None
    assert parsed.certain or parsed.claimed_by(content)
    source = session_folder.source_in(content)
    assert source is None or source.isascii()


@given(st.binary(max_size=200))
def test_any_head_says_a_source_or_nothing(head: bytes) -> None:
    source = session_folder.source_in(head)
    assert source is None or source.encode() in head
