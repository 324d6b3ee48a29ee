"""Ignore patterns mean what they mean to git, whatever is in them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.stores.checkpoints.ignore_patterns import Patterns

NAMES = (b"a", b"b", b"ab", b"a.log", b".env", b"-", b"]", b"a b", b"*", b"\\a", b"!a", b"#", b"z ")
FOLDERS = (b"d", b"d/e", b"d/e/f", b"a.d", b"b.d", b"b.d/d")
PATHS = sorted({*FOLDERS, *NAMES, *(f + b"/" + n for f in FOLDERS for n in NAMES)})

parts = st.sampled_from(
    [
        *(b"a", b"b", b".", b"d", b"e", b"f", b".log", b" ", b"-", b"#", b"!"),
        *(b"*", b"**", b"***", b"?", b"/", b"/", b"\\", b"\\!", b"\\ ", b"\\*"),
        *(b"[ab]", b"[!a]", b"[^a]", b"[a-e]", b"[]]", b"[]-]", b"[a-", b"[\\]]", b"[[:alpha:]]"),
        *(b"[[:nope:]]", b"[[:al", b"[/]", b"[!/]", b"[a-c-e]", b"[--a]", b"[[:]a", b"[a\\-e]"),
    ]
)
lines = st.lists(parts, min_size=1, max_size=5).map(b"".join)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        place = Path(folder)
        subprocess.run(["git", "init", "-q", place], check=True)
        for name in FOLDERS:
            (place / os.fsdecode(name)).mkdir(parents=True)
        for name in PATHS:
            if name not in FOLDERS:
                (place / os.fsdecode(name)).touch()
        yield place


def by_git(place: Path, rules: list[bytes]) -> set[bytes]:
    (place / ".git" / "rules").write_bytes(b"\n".join(rules))
    words = ["git", "-c", "core.excludesFile=.git/rules", "check-ignore", "--no-index", "--stdin"]
    asked = b"".join(b"./%b\0" % path for path in PATHS)
    said = subprocess.run([*words, "-z"], check=False, input=asked, capture_output=True, cwd=place)
    return {each.removeprefix(b"./") for each in said.stdout.split(b"\0") if each}


@given(rules=st.lists(lines, min_size=1, max_size=4))
@example(rules=[b"!a", b"a", b"**/e", b"d/**", b"/b", b"!d/e/", b"\\#"])
@example(rules=[b"*", b"!d/", b"!*.log"])
def test_patterns_match_what_git_matches(place: Path, rules: list[bytes]) -> None:
    patterns, ignored = Patterns(rules), set[bytes]()
    for path in PATHS:  # a folder comes before what is in it
        found = patterns.last(path, is_folder=path in FOLDERS)
        above = path.rpartition(b"/")[0]
        if above in ignored or (found is not None and not found.negated):
            ignored.add(path)
    assert ignored == by_git(place, rules)
