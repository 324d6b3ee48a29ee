"""Every key has its true line or none."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.toml_document import key_lines

DOCUMENT = '''\
# trash_days = 1
trash_days = 7  # sessions.x = 1

text = """
[decoy]
trash_days = 2 \\"""
"""
literal = \'\'\'
[decoy]
\'\'\'\'
array = [
  "]", # a comment with ] and "
  { keep = 1 },
  [ "x = 1" ],
]
"quoted key" = 1
'lit.eral'."dot\\u0074ed" . bare = 2
[ sessions . "source" ] # [other]
cron . keep_last = 3
inline = { a = { b = "}" }, c = [ 1, 2 ] }
[[many]]
x = 1
[[many]]
x = 2
[sessions]
\tretention_days = 3
date = 2026-03-25T11:25:00Z
last = "#"'''

LINES = {
    ("trash_days",): 2,
    ("text",): 4,
    ("decoy",): None,
    ("literal",): 8,
    ("array",): 11,
    ("keep",): None,
    ("x",): None,
    ("quoted key",): 16,
    ("lit.eral",): 17,
    ("lit.eral", "dotted", "bare"): 17,
    ("sessions",): 18,
    ("sessions", "source"): 18,
    ("sessions", "source", "cron"): 19,
    ("sessions", "source", "cron", "keep_last"): 19,
    ("sessions", "source", "inline", "a", "b"): 20,
    ("sessions", "source", "other"): None,
    ("many",): 21,
    ("sessions", "retention_days"): 26,
    ("sessions", "date"): 27,
    ("sessions", "last"): 28,
    ("sessions", "x"): None,
    (): None,
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("path", LINES, ids=".".join)
def test_line_of_a_key(path: tuple[str, ...], newline: str) -> None:
    tomllib.loads(DOCUMENT)
    assert key_lines(DOCUMENT.replace("\n", newline)).of(path) == LINES[path]


@pytest.mark.parametrize(
    "text",
    ["= 1", "a", "a b = 1", "a = [", 'a = "', "[a", "[]", '"\\z" = 1', "a. = 1", "a = }", "\0"],
)
def test_a_text_it_does_not_understand_gives_no_line(text: str) -> None:
    lines = key_lines(text + "\nlater = 1\n")
    assert lines.of(("later",)) in {None, 2}


def test_a_line_before_what_it_does_not_understand_is_still_true() -> None:
    assert key_lines("a = 1\n= \nb = 2").of(("a",)) == 1
    assert key_lines("a = 1\n= \nb = 2").of(("b",)) is None


def test_a_large_file_is_no_trouble() -> None:
    text = "#\n" * 100_000 + 'a = """' + "x\\n\n" * 200_000 + '"""\nb = 1\n'
    assert key_lines(text).of(("b",)) == 300_002


# --- Any valid document ---------------------------------------------------------------------------

NAMES = ["a", "b", '"a"', "'b'", '"c d"', '"\\u0065"', '"e.f"', "'#'", '"]"']
VALUES = [
    "1",
    "-1.5e3",
    "true",
    '"a = 1 # \\" ]"',
    "'[a]'",
    '"""\na = 1\n[b]\\"""\n"""""',
    "'''\n[a]\n'x = \"\"\"'''''",
    '""""""',
    "[1, [2], # ]\n\n 'a = 1',\n]",
    '{ x = 1, y.z = "}" }',
    "[\n{ a = 1 },\n]",
    "2026-03-25 11:25:00",
    "[]",
    "{}",
]
KEYS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
GAPS = st.sampled_from(["", "\n", "# a = 1\n", " \t\n\n", '  # """\n'])
ENDS = st.sampled_from(["\n", "  # b = '''\n", "\t\n"])
STATEMENTS = st.one_of(
    st.tuples(KEYS, st.sampled_from(["=", " = "]), st.sampled_from(VALUES)),
    st.tuples(KEYS, st.sampled_from(["[", "[["]), st.just("")),
)
DOCUMENTS = st.lists(st.tuples(GAPS, STATEMENTS, ENDS), max_size=10)


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))


def plain(key: list[str]) -> tuple[str, ...]:
    return tuple(tomllib.loads(f"k = {part}")["k"] if part[0] in "\"'" else part for part in key)


@settings(deadline=None)  # the machine may be busy
@given(DOCUMENTS)
def test_lines_of_any_valid_document(
    parts: list[tuple[str, tuple[list[str], str, str], str]],
) -> None:
    """Statements that would make the document invalid are left out, one by one."""
    text = ""
    table: tuple[str, ...] = ()
    arrays: set[tuple[str, ...]] = set()
    expected: dict[tuple[str, ...], int] = {}
    for gap, (key, sign, value), end in parts:
        is_header = sign.startswith("[")
        closing = sign.replace("[", "]")
        written = f"{sign}{'.'.join(key)}{closing}" if is_header else ".".join(key) + sign + value
        grown = text + gap + written + end
        try:
            tomllib.loads(grown)
        except tomllib.TOMLDecodeError:
            continue
        line = (text + gap).count("\n") + 1
        text = grown
        if is_header:
            table = plain(key)
            arrays |= {table} if sign == "[[" else set()
        else:
            expected[(*table, *plain(key))] = line
    lines = key_lines(text)
    for path, line in expected.items():
        if not any(path[:length] in arrays for length in range(len(path))):
            assert lines.of(path) == line
    for path in leaves(tomllib.loads(text)):
        assert not path or lines.of(path) is not None
