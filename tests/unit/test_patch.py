"""A difference of git, read for a page: numbers, pairs, and bounds that hold for any input."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.model.patch import LONGEST_LINE, read_patch

_PATCH = b"""\
diff --git a/one.py b/one.py
index 1..2 100644
--- a/one.py
+++ b/one.py
@@ -3,4 +3,5 @@ def f():
 same
-old one
-old two
+new one
+new two
+new three
 end
\\ No newline at end of file
diff --git a/logo.png b/logo.png
index 3..4 100644
Binary files a/logo.png and b/logo.png differ
diff --git a/a.txt b/b.txt
similarity index 100%
rename from a.txt
rename to b.txt
"""


def test_lines_have_their_numbers_and_files_their_facts() -> None:
    text, picture, renamed = read_patch(_PATCH.splitlines(keepends=True))
    [hunk] = text.hunks
    assert hunk.heading == "def f():"
    assert [(line.kind, line.old, line.new, line.text) for line in hunk.lines] == [
        ("same", 3, 3, "same"),
        ("removed", 4, None, "old one"),
        ("removed", 5, None, "old two"),
        ("added", None, 4, "new one"),
        ("added", None, 5, "new two"),
        ("added", None, 6, "new three"),
        ("same", 6, 7, "end"),
        ("note", None, None, " No newline at end of file"),
    ]
    assert picture.binary
    assert not picture.hunks
    assert renamed.facts == ("similarity index 100%", "rename from a.txt", "rename to b.txt")


def test_what_was_added_stands_beside_what_it_replaced() -> None:
    [hunk] = read_patch(_PATCH.splitlines(keepends=True))[0].hunks
    pairs = [(a.text if a else None, b.text if b else None) for a, b in hunk.side_by_side()]
    assert pairs == [
        ("same", "same"),
        ("old one", "new one"),
        ("old two", "new two"),
        (None, "new three"),
        ("end", "end"),
    ]


def test_what_is_too_long_is_cut_and_counted_and_what_is_hostile_is_escaped() -> None:
    closed = []

    def lines() -> Iterator[bytes]:
        try:
            yield b"diff --git a/x b/x\n"
            yield b"@@ -0,0 +1,9999 @@\n"
            yield b"+" + b"x" * 5_000_000 + b"\n"
            yield "+\x1b[31m\u202e\n".encode()
            yield b"+\xff--- a/looks/like/a/header\n"
            for _ in range(9_996):
                yield b"+\n"
        finally:
            closed.append(True)

    [found] = read_patch(lines(), most_lines=10)
    [hunk] = found.hunks
    assert len(hunk.lines) == 10
    assert found.hidden == 9_999 - 10
    assert len(hunk.lines[0].text) == LONGEST_LINE + 2
    assert hunk.lines[1].text == "\\x1b[31m\\u202e"
    assert hunk.lines[2].text == "\\xff--- a/looks/like/a/header"
    assert closed


def _parts(*lines: str) -> list[tuple[str, str, str]]:
    text = ["diff --git a/x b/x\n", "@@ -1,9 +1,9 @@\n", *(f"{line}\n" for line in lines)]
    [found] = read_patch([each.encode() for each in text])
    return [line.parts for line in found.hunks[0].lines]


def test_what_differs_in_a_changed_line_is_known() -> None:
    assert _parts("-def f(request):", "-x", "+def f(asked):", "+y") == [
        ("def f(", "request", "):"),
        ("", "", "x"),
        ("def f(", "asked", "):"),
        ("", "", "y"),
    ]
    assert _parts("-aab", "+aaab") == [("aa", "", "b"), ("aa", "a", "b")]
    # As many as were removed must have been added, or nobody knows which became which.
    assert _parts("-one two", "-three", "+one 2") == [
        ("", "", t) for t in ("one two", "three", "one 2")
    ]
    assert _parts("-same", "+same") == [("same", "", ""), ("same", "", "")]


def test_a_mode_is_said_in_words() -> None:
    def facts(*lines: bytes) -> tuple[str, ...]:
        [found] = read_patch([b"diff --git a/x b/x", *lines])
        return found.facts

    assert facts(b"old mode 100644", b"new mode 100755") == ("became executable",)
    assert facts(b"old mode 100755", b"new mode 100644") == ("is no longer executable",)
    assert facts(b"new file mode 100755") == ("new file, executable",)
    assert facts(b"new file mode 120000") == ("new link",)
    assert facts(b"deleted file mode 100644") == ("deleted file",)
    assert facts(b"similarity index 90%", b"rename from a b") == (
        "similarity index 90%",
        "rename from a b",
    )
