"""Which names are a session's file, whose, and which are somebody's state."""

from __future__ import annotations

import pytest

from holdfast.homes.sessions.folder import SessionFileName, parse, source_in
from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT

STAMPED = "20260325_112518_6995d1"
CRON = "cron_backup_20260325_112518"


def certain(kind: str, session: str) -> SessionFileName:
    return SessionFileName(kind=kind, session=session, certain=True)


# --- Transcripts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "session",
    [
        STAMPED,
        "20260325_112518_abcd",
        "20260325_112518_" + "f" * 32,
        CRON,
        "cron_nightly-job.v2_20260325",
        "cron_a_b_20260325_112518_123456",
        "cron_7_1774437918",
    ],
)
@pytest.mark.parametrize("form", ["session_{}.json", "{}.json", "{}.jsonl"])
def test_a_generated_id_is_proof(form: str, session: str) -> None:
    assert parse(form.format(session)) == certain(TRANSCRIPT, session)


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("session_my-chat.json", "my-chat"),
        ("my-chat.jsonl", "my-chat"),
        ("session_index.json", "index"),
        ("index.jsonl", "index"),
        ("session_session_a.json", "session_a"),
        ("session_a..b.json", "a..b"),
        ("request_dump_a_20260325_112518.jsonl", "request_dump_a_20260325_112518"),
        (f"session_{STAMPED}.bak.json", f"{STAMPED}.bak"),
        (f"session_{STAMPED.upper()}.json", STAMPED.upper()),
        (f"{'x' * 200}.jsonl", "x" * 200),
    ],
)
def test_an_id_that_somebody_made_up_is_no_proof(name: str, session: str) -> None:
    assert parse(name) == SessionFileName(kind=TRANSCRIPT, session=session, certain=False)


# --- Request dumps --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "session"),
    [
        (f"request_dump_{STAMPED}_20260325_112519_123456.json", STAMPED),
        (f"request_dump_{STAMPED}_20260325_112519.json", STAMPED),
        (f"request_dump_{STAMPED}_retry-2.json", STAMPED),
        (f"request_dump_{CRON}_20260326_101010.json", CRON),
        ("request_dump_my-chat_20260325_112518.json", "my-chat"),
        ("request_dump_20260325_112518_699512_20260325_112519_1.json", "20260325_112518_699512"),
    ],
)
def test_a_request_dump(name: str, session: str) -> None:
    assert parse(name) == certain(REQUEST_DUMP, session)


@pytest.mark.parametrize("shorter", ["a", "a_b", STAMPED, CRON, "a_20260325_112518"])
@pytest.mark.parametrize("more", ["b", "2", "a_b", "20260101", "20260101_000000"])
def test_a_dump_of_a_longer_id_is_no_dump_of_the_shorter(shorter: str, more: str) -> None:
    """Session a_b is another session than a, whatever a and b look like."""
    longer = f"{shorter}_{more}"
    assert parse(f"request_dump_{longer}_20260325_112519.json") == certain(REQUEST_DUMP, longer)
    assert parse(f"request_dump_{shorter}_20260325_112519.json") == certain(REQUEST_DUMP, shorter)


# --- What is none ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("sessions.json", id="the routing table"),
        pytest.param("index.json", id="an index"),
        pytest.param("my-chat.json", id="a made-up id without a prefix"),
        pytest.param("state.db", id="a database"),
        pytest.param(f"{STAMPED}.json.tmp", id="half-written"),
        pytest.param(f".{STAMPED}.json", id="hidden"),
        pytest.param(f"{STAMPED}.json.gz", id="compressed"),
        pytest.param(f"{STAMPED}.JSON", id="another case"),
        pytest.param(f"{STAMPED}", id="no suffix"),
        pytest.param(f"session_{STAMPED}.jsonl.json~", id="a backup"),
        pytest.param("20260325_112518.json", id="no random part"),
        pytest.param("20260325_112518_xyz123.json", id="no hex"),
        pytest.param("cron_20260325.json", id="a cron id without a job"),
        pytest.param("cron_job_2026.json", id="a cron id without a time"),
        pytest.param("session_.json", id="no id"),
        pytest.param(".jsonl", id="only a suffix"),
        pytest.param("request_dump_.json", id="a dump of nothing"),
        pytest.param("request_dump_20260325_112518.json", id="a dump of nobody"),
        pytest.param(f"request_dump_{STAMPED}.json", id="a dump without a time"),
        pytest.param(f"request_dump_{STAMPED}_.json", id="a dump with an empty time"),
        pytest.param("request_dump_my-chat_latest.json", id="a dump of whom?"),
        pytest.param("", id="nothing"),
        pytest.param(".", id="here"),
        pytest.param("..", id="above"),
        pytest.param("session_...json", id="two dots for an id"),
        pytest.param("...jsonl", id="two dots and a suffix"),
        pytest.param(f"../{STAMPED}.json", id="a path upwards"),
        pytest.param(f"session_../{STAMPED}.json", id="a path in the middle"),
        pytest.param(f"a/{STAMPED}.jsonl", id="a path downwards"),
        pytest.param(f"a\\{STAMPED}.jsonl", id="a path on Windows"),
        pytest.param(f"-{STAMPED}.json", id="a leading dash"),
        pytest.param("-rf.jsonl", id="a flag"),
        pytest.param("session_-rf.json", id="a flag for an id"),
        pytest.param(f"{STAMPED}.json\n", id="a newline at the end"),
        pytest.param(f"\n{STAMPED}.json", id="a newline at the start"),
        pytest.param("session_a\nb.json", id="a newline in the id"),
        pytest.param(f"{STAMPED}\0.json", id="a zero byte"),
        pytest.param("session_a b.json", id="a space"),
        pytest.param("session_a*.json", id="a glob"),
        pytest.param("session_a\udcff.json", id="no UTF-8"),
        pytest.param(f"request_dump_{STAMPED}_\udcff.json", id="a dump in no UTF-8"),
        pytest.param("session_é.json", id="a letter beyond ASCII"),
        pytest.param("２０２６0325_112518_6995d1.json", id="full-width digits"),
        pytest.param("٢٠٢٦٠٣٢٥_112518_6995d1.jsonl", id="Arabic digits"),
        pytest.param("request_dump_a_٢٠٢٦٠٣٢٥_112518.json", id="Arabic digits in a dump"),
        pytest.param("ſession_a.json", id="a long s"),
        pytest.param(f"session_{'x' * 242}.json", id="255 bytes"),
        pytest.param(f"{'x' * 201}.jsonl", id="an id of 201 characters"),
    ],
)
def test_not_a_session_file(name: str) -> None:
    assert parse(name) is None


def test_a_name_of_255_bytes_can_be_one() -> None:
    session = f"cron_{'x' * 236}_20260325"
    name = f"{session}.json"
    assert len(name) == 255
    assert parse(name) == certain(TRANSCRIPT, session)


# --- What a file says of itself -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "claimed"),
    [
        (b'{"session_id": "my-chat", "messages": []}', True),
        (b'{\n  "id" : "my-chat"', True),
        (b'{"session_id": "my-chat2"}', False),
        (b'{"session_id": "not-my-chat"}', False),
        (b'{"parent_id": "my-chat"}', False),
        (b'{"title": "my-chat"}', False),
        (b"my-chat", False),
        (b'\xff\xfe{"id": "my-ch', False),
        (b"", False),
    ],
)
def test_claimed_by(head: bytes, *, claimed: bool) -> None:
    name = parse("session_my-chat.json")
    assert name is not None
    assert name.claimed_by(head) is claimed


def test_an_id_is_no_pattern() -> None:
    name = parse("session_a.b.json")
    assert name is not None
    assert name.claimed_by(b'{"id": "a.b"}')
    assert not name.claimed_by(b'{"id": "axb"}')


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (f"session_{CRON}.json", "cron"),
        (f"request_dump_{CRON}_20260326_101010.json", "cron"),
        (f"session_{STAMPED}.json", None),
        ("session_cronical.json", None),
    ],
)
def test_the_source_in_a_name(name: str, source: str | None) -> None:
    parsed = parse(name)
    assert parsed is not None
    assert parsed.source == source


@pytest.mark.parametrize(
    ("head", "source"),
    [
        (b'{"source": "telegram"}', "telegram"),
        (b'{"platform" :\n "discord"}', "discord"),
        (b'{"source": "my-bot.v2_x"}', "my-bot.v2_x"),
        (b'{"source": "cli", "platform": "telegram"}', "cli"),
        (b'{"source": ""}', None),
        (b'{"source": null}', None),
        (b'{"source": "Tele gram"}', None),
        (b'{"source": "../../etc"}', None),
        (b'{"source": "\xff"}', None),
        (b'{"source": "' + b"x" * 64 + b'"}', "x" * 64),
        (b'{"source": "' + b"x" * 65 + b'"}', None),
        (b'{"resource": "cli"}', None),
        (b"", None),
    ],
)
def test_the_source_in_a_file(head: bytes, source: str | None) -> None:
    assert source_in(head) == source
