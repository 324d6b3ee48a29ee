"""Durations, moments and sizes: from text, to text, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timedelta, timezone, tzinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model.durations import parse_duration, parse_moment
from holdfast.model.text import format_bytes, format_count, format_duration, parse_size
from tests.builders import NOW, moment

MINUTE, HOUR, DAY, YEAR = 60, 3_600, 86_400, 365 * 86_400

# --- Durations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("45s", 45),
        ("30m", 30 * MINUTE),
        ("5h", 5 * HOUR),
        ("2d", 2 * DAY),
        ("1w", 7 * DAY),
        ("3mo", 90 * DAY),
        ("3months", 90 * DAY),
        ("1month2min", 30 * DAY + 2 * MINUTE),
        ("2weeks1day", 15 * DAY),
        ("1y", YEAR),
        ("1.5h", 90 * MINUTE),
        ("1d12h", 36 * HOUR),
        ("1w1d1h1m1s", 8 * DAY + HOUR + MINUTE + 1),
        ("1h1h", 2 * HOUR),
        ("  2D ", 2 * DAY),
        ("1000y", 1_000 * YEAR),
    ],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "h", "-5h", "+5h", "5 h", "1d 12h", "5x", "1mon!", ".5h", "5.h", "5h!"),
        *("1e3s", "inf", "nan", "5h\n5h", "２ｄ", "5\udcffh"),
    ],
)
def test_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration") as refused:
        parse_duration(text)
    assert repr(text) in refused.value.message
    assert "30m, 5h, 2d" in (refused.value.hint or "")


@pytest.mark.parametrize("text", ["1001y", "1000y1s", "9" * 400 + "d"])
def test_longer_than_anybody_keeps_anything(text: str) -> None:
    with pytest.raises(UsageError, match="longer than 1,000 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (HOUR, "1 h"),
        (36 * HOUR, "36 h"),
        (2 * DAY - 1, "47 h"),
        (2 * DAY, "2 d"),
        (120.9 * DAY, "120 d"),
        (1_234 * DAY, "1,234 d"),
    ],
)
def test_format_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@settings(deadline=None)  # the machine may be busy
@given(st.one_of(st.integers(0, 59), st.integers(60, 400).map(lambda days: days * DAY)))
def test_whole_units_survive_the_round_trip(seconds: int) -> None:
    written = format_duration(seconds).replace(" ", "").replace(",", "")
    assert parse_duration(written) == seconds


# --- Moments --------------------------------------------------------------------------------------

EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "local", "expected"),
    [
        pytest.param("5h", None, NOW - 5 * HOUR, id="a duration before now"),
        pytest.param(" 1D12H ", EAST, NOW - 36 * HOUR, id="a duration knows no zone"),
        pytest.param("2026-03-25", None, moment("2026-03-25"), id="a date is its first second"),
        pytest.param("2026-03-25", EAST, moment("2026-03-24T22:00"), id="a date, here"),
        pytest.param("2026-03-25T11:25", EAST, moment("2026-03-25T09:25"), id="a time, here"),
        pytest.param("2026-03-25 11:25", UTC, moment("2026-03-25T11:25"), id="with a space"),
        pytest.param("2026-03-25T11:25Z", EAST, moment("2026-03-25T11:25"), id="in UTC"),
        pytest.param("2026-03-25T11:25-05:00", EAST, moment("2026-03-25T16:25"), id="an offset"),
        pytest.param("1969-12-31T23:59:59", None, -1.0, id="before the epoch"),
    ],
)
def test_parse_moment(text: str, local: tzinfo | None, expected: float) -> None:
    assert parse_moment(text, now=NOW, local=local) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "-5h", "2026-13-01", "2026-02-30", "25.03.2026", "10000-01-01"),
        *("2026-03-25T25:00", "2026-03-25T11:25+99:00", "2026-03-25\udcff", "2026-03-25\n1d"),
    ],
)
def test_no_moment(text: str) -> None:
    with pytest.raises(UsageError, match="is neither a duration nor a date") as refused:
        parse_moment(text, now=NOW)
    assert repr(text) in refused.value.message
    assert "2026-03-25" in (refused.value.hint or "")


def test_a_moment_too_long_ago() -> None:
    with pytest.raises(UsageError, match="longer than 1,000 years"):
        parse_moment("2000y", now=NOW)


# --- Sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17B", 17),
        ("64k", 64_000),
        ("64kB", 64_000),
        ("64KiB", 65_536),
        ("64ki", 65_536),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        ("1.5GB", 1_500_000_000),
        ("1.5GiB", 1_610_612_736),
        ("2T", 2_000_000_000_000),
        (" 1 TiB ", 1_099_511_627_776),
        ("1.001k", 1_001),  # 1.001 * 1000 is a hair below 1001
        ("4.1MB", 4_100_000),
        ("0.4B", 0),
    ],
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", "MB", "-1MB", "+1MB", "1,5GB", "1.5.5GB", ".5GB", "5.GB", "1e9", "1PB", "1 M B"),
        *("1MBB", "1bk", "inf", "nan", "1MB\n1MB", "1MB\udcff", "0x10"),
    ],
)
def test_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size") as refused:
        parse_size(text)
    assert repr(text) in refused.value.message
    assert "500MB" in (refused.value.hint or "")


@pytest.mark.parametrize("text", ["9300000TB", "9" * 20, "9" * 400, "9" * 5_000 + "KiB"])
def test_larger_than_any_disk(text: str) -> None:
    with pytest.raises(UsageError, match="larger than any disk"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_249, "1.2 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (999_999_999, "1.0 GB"),
        (2_000_000_000_000, "2.0 TB"),
        (1_234_500_000_000_000, "1,234.5 TB"),
        (-1_500, "-1.5 kB"),
    ],
)
def test_format_bytes(size: int, text: str) -> None:
    assert format_bytes(size) == text


@settings(deadline=None)  # the machine may be busy
@given(st.integers(0, 10**15))
def test_a_size_that_was_shown_reads_back_to_what_it_shows(size: int) -> None:
    shown = format_bytes(size)
    read = parse_size(shown.replace(",", ""))
    assert format_bytes(read) == shown
    assert abs(read - size) <= size * 0.05


# --- Counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("file",), "0 files"),
        (1, ("file",), "1 file"),
        (1_204, ("file",), "1,204 files"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_format_count(number: int, words: tuple[str, ...], text: str) -> None:
    assert format_count(number, *words) == text


@pytest.mark.parametrize(
    ("parse", "says", "hint"),
    [
        (parse_duration, "5 seconds or 5 days", "5s or 5d"),
        (lambda text: parse_moment(text, now=0.0), "5 hours ago or 5 days ago", "5h or 5d"),
        (parse_size, "5 bytes or 5 megabytes", "5B or 5MB"),
    ],
)
def test_a_number_without_a_unit(parse: Callable[[str], float], says: str, hint: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        parse("5")
    assert hint in (refused.value.hint or "")
