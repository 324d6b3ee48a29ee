"""Redaction: what a secret looks like, and what only looks like one.

Every secret here is made up, and put together when the test runs: nothing in this file has the
shape of one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid

import pytest

from holdfast.model.session import Json, Message, Session
from holdfast.services.exchange.redactor import Redactor

_RANDOM = random.Random(20260325)  # the same fakes in every run
ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "_-"
HEX = "0123456789abcdef"


def fake(length: int, alphabet: str = ALNUM) -> str:
    """Random text; it begins with a digit and a letter of both cases, as most keys have."""
    start = "4fK" if set("4fK") <= set(alphabet) else ""
    return start + "".join(_RANDOM.choices(alphabet, k=length - len(start)))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def part(fields: dict[str, str]) -> str:
    """One part of a made-up JWT."""
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def a_uuid(seed: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, seed))


def key_block(kind: str) -> str:
    body = "\n".join(fake(64, ALNUM + "+/") for _ in range(4))
    return f"-----{'BEGIN'} {kind}PRIVATE KEY-----\n{body}\n-----{'END'} {kind}PRIVATE KEY-----"


UPPER = string.ascii_uppercase + string.digits
SHAPES = [
    ("aws-access-key", "AKI" + "A" + "".join(_RANDOM.choices(UPPER, k=16))),
    ("aws-access-key", "ASI" + "A" + "".join(_RANDOM.choices(UPPER, k=16))),
    ("github-token", "gh" + "p_" + fake(36)),
    ("github-token", "gh" + "s_" + fake(36)),
    ("github-fine-grained-token", "github" + "_pat_" + fake(22) + "_" + fake(59)),
    ("gitlab-token", "glp" + "at-" + fake(20, URL_SAFE)[:-1] + "x"),
    ("slack-token", "xox" + "b-" + fake(12, string.digits) + "-" + fake(24)),
    ("slack-token", "xap" + "p-1-" + fake(10) + "-" + fake(12, string.digits) + "-" + fake(40)),
    ("google-api-key", "AI" + "za" + fake(34, URL_SAFE) + "x"),
    ("google-oauth-token", "ya" + "29." + fake(60) + "x"),
    ("stripe-key", "sk" + "_live_" + fake(24)),
    ("stripe-key", "rk" + "_test_" + fake(24)),
    ("anthropic-key", "sk-" + "ant-api03-" + fake(80, URL_SAFE)[:-1] + "x"),
    ("openai-key", "sk-" + fake(48)),
    ("openai-key", "sk-" + "proj-" + fake(60)),
    ("npm-token", "np" + "m_" + fake(36)),
    ("pypi-token", "pyp" + "i-AgE" + fake(60)),
    ("huggingface-token", "h" + "f_" + fake(34)),
    ("telegram-bot-token", fake(9, string.digits) + ":A" + "A" + fake(32) + "x"),
    ("jwt", ".".join([part({"alg": "HS256"}), part({"sub": "nobody"}), fake(43)])),
    ("private-key", key_block("RSA ")),
    ("private-key", key_block("")),
    ("private-key", key_block("OPENSSH ")),
]


@pytest.mark.parametrize(("rule", "secret"), SHAPES, ids=range(len(SHAPES)))
@pytest.mark.parametrize(
    "frame",
    ["%s", "use %s please", "a=1;%s\nb", '{"x": ["%s"]}', "(%s)", "`%s`", "https://h/?q=%s"],
)
def test_well_known_shapes(rule: str, secret: str, frame: str) -> None:
    redactor = Redactor()
    literal = json.dumps(secret)[1:-1] if frame.startswith("{") else secret
    redacted = redactor.text(frame % literal)
    assert redacted == frame % f"[redacted:{rule}]"
    assert redactor.counts == {rule: 1}


WORD = "sword" + "fish7"
KEY = fake(32)
AROUND_A_NAME = [
    ("password={}", "password", WORD),
    ("password={}", "password", "swordfish"),
    ("PGPASSWORD={} psql", "password", WORD),
    ("DB_PASS={}", "password", WORD),
    ('password = "{}"', "password", "correct horse battery"),
    ("'passwd': '{}'", "password", WORD),
    ("password: {}", "password", "swordfish"),
    ("user: me\npassword: {}\nhost: h", "password", "swordfish"),
    ("mysql --password {} -u me", "password", WORD),
    ("?password={}&x=1", "password", WORD),
    (r"\"password\": \"{}\"", "password", WORD),
    ("Server=h;Password={};", "password", WORD),
    ("client_secret={}", "credential", KEY),
    ("token: {}", "credential", KEY),
    ("access_token={}", "credential", KEY),
    ('apiKey: "{}"', "credential", KEY),
    ("OPENAI_API_KEY={}", "credential", KEY),
    ("api-key => '{}'", "credential", KEY),
    ("X-Api-Key: {}", "credential", KEY),
    ("curl --token {} h", "credential", KEY),
    ("aws_secret_access_key = {}", "credential", fake(40, ALNUM + "+/")),
    ("api_key: {}", "credential", hashlib.md5(b"x", usedforsecurity=False).hexdigest()),
    ("token={}", "credential", a_uuid("t")),
    ("key: {}", "high-entropy", fake(40)),
    ("cookie = '{}'", "high-entropy", fake(40)),
    ("Authorization: Bearer {}", "bearer-token", fake(40)),
    ("-H 'authorization: bearer {}'", "bearer-token", fake(30)),
    ("Authorization: Basic {}", "basic-credentials", b64("me:" + WORD)),
    ("postgres://me:{}@db:5432/x", "url-password", "p" + "w"),
    ("redis://:{}@h", "url-password", WORD),
    ("https://x-access-token:{}@github.com/a/b.git", "url-password", fake(30)),
    ("https://hooks.slack.com/services/{}", "slack-webhook", "T0/B0/" + fake(24)),
]


@pytest.mark.parametrize(("frame", "rule", "secret"), AROUND_A_NAME)
def test_secrets_that_their_place_gives_away(frame: str, rule: str, secret: str) -> None:
    redactor = Redactor()
    redacted = redactor.text(frame.format(secret))
    assert redacted == frame.format(f"[redacted:{rule}]")
    assert redactor.counts == {rule: 1}
    again = Redactor()
    assert again.text(redacted) == redacted
    assert again.counts == {}


PROSE = "It is a truth universally acknowledged, that a single man in possession of a fortune"
HARMLESS = [
    "commit 215a4eb0c1d2e3f405162738495a6b7c8d9e0f11",
    "sha256:" + hashlib.sha256(b"x").hexdigest(),
    hashlib.sha512(b"x").hexdigest(),
    "session 20260325_112518_6995d1, cron_backup_20260325_112518",
    "id " + a_uuid("u"),
    b64(PROSE),
    "data:image/png;base64," + b64(PROSE * 3),
    "cache key: " + hashlib.sha256(b"y").hexdigest(),
    '{"key": "' + a_uuid("v") + '"}',
    '{"signature": "' + hashlib.md5(b"z", usedforsecurity=False).hexdigest() + '"}',
    "tokens: 4096, max_tokens=8192, token_count=17",
    "Unexpected token: punctuation, token = tokens[index]",
    "password = get_password()\npassword: str = field()\nif password == other:",
    "connect(password=settings.password, token=self.token, api_key=os.environ['API_KEY'])",
    "password=$PASSWORD token=${TOKEN} api_key=<your key> secret=***",
    "export API_KEY=OPENAI_API_KEY_2; PWD=/srv/agent; cd $PWD",
    "interface Login { password: string; token?: string }",
    "postgres://me:$PASS@db/x, https://example.com:8080/a@b, git@github.com:a/b.git",
    "pip install sk-learn-contrib-something-rather-long-indeed",
    "the bearer of this authentication-scheme is nobody; basic training and basic arithmetic",
    "grep for -----BEGIN RSA PRIVATE KEY----- in the files",
    "public_key: ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5" + fake(48),
    "primary_key=True, sort_key: created_at, keyboard: qwerty123",
    "toolu_" + fake(24) + " call_" + fake(24),
    "secrets of the trade; pass: 12, passed=5000",
    '{"password": {"type": "string"}, "token": null, "secret": true, "api_key": 5}',
]


@pytest.mark.parametrize("text", HARMLESS, ids=range(len(HARMLESS)))
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.counts == {}


_LINES = [fake(64, ALNUM + "+/") for _ in range(9)] + [fake(21, ALNUM)]
_FIRST, _LAST = (f"-----{side} RSA PRIVATE KEY-----" for side in ("BEGIN", "END"))
_KEY = [_FIRST, *_LINES, _LAST]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"{number:6}→{line}" for number, line in enumerate(_KEY, 1)),
        "\n".join(f"{number}: {line}" for number, line in enumerate(_KEY, 1)),
        "\n".join(f"> {line}" for line in _KEY),
        "\n".join(f'    "{line}\\n"' for line in _KEY),
        "\n".join([*_KEY[:4], "[… 4 lines truncated …]", *_KEY[8:]]),
        "\n".join([*_KEY[:4], "<a part was left out here>", *_KEY[8:]]),
        "\n".join(["the rest of it:", *_KEY[3:]]),
        "\n".join(f"{number:6}→{line}" for number, line in enumerate(_KEY[3:], 4)),
        "\\n".join(_KEY[3:]),
        "\n".join(f"{number:6}→{line}" for number, line in enumerate(_KEY[:5], 1)),
        "\n".join([*_KEY[:5], "... output truncated ..."]),
        " ".join(_KEY),
    ],
    ids=range(12),
)
def test_nothing_of_a_key_stays_however_it_is_shown_or_cut(text: str) -> None:
    redactor = Redactor()
    said = redactor.text(f"before\n{text}\nafter it")
    assert not [line for line in _LINES if line in said], said
    assert redactor.counts == {"private-key": 1}
    assert said.startswith("before\n")
    assert said.endswith("after it")


def test_a_key_in_several_messages() -> None:
    """As a terminal shows it page by page. What is no part of it stays."""
    digest, encoded = fake(64, "0123456789abcdef"), "\n".join(fake(76) for _ in range(3))
    redactor = Redactor()
    session = Session(id="a", source="cli", started_at=1.0, last_active_at=1.0)
    redactor.session(session)

    def said(*lines: str) -> str:
        done = redactor.message(Message(role="tool", content="\n".join(lines))).content
        assert isinstance(done, str)
        return done

    mark = "[redacted:private-key]"
    assert said("$ less key", *_KEY[:4]) == f"$ less key\n{mark}"
    assert said("and now?", digest) == f"and now?\n{digest}"
    assert said(encoded.replace("\n", "")) == encoded.replace("\n", ""), "a file in one line"
    assert said(*_KEY[4:7]) == mark
    assert said(*_KEY[7:], "$ ") == f"{mark}\n$ "
    assert said(encoded) == encoded
    assert said(*_KEY[:4]) == mark
    redactor.session(session)
    assert said(encoded) == encoded, "another session"
    assert redactor.counts == {"private-key": 4}


def test_every_text_of_a_session_is_searched() -> None:
    secret = "gh" + "o_" + fake(36)
    mark = "[redacted:github-token]"
    redactor = Redactor()
    session = redactor.session(
        Session(
            id="a",
            source=secret,
            started_at=1.0,
            last_active_at=1.0,
            title=f"about {secret}",
            cwd=f"/home/{secret}",
            model=secret,
            end_reason=secret,
            routing_key=secret,
            extra={"x": [{"y": secret}], secret: 1},
        )
    )
    assert (session.source, session.title, session.cwd) == (mark, f"about {mark}", f"/home/{mark}")
    assert (session.model, session.end_reason, session.routing_key) == (mark, mark, mark)
    assert session.extra == {"x": [{"y": mark}], secret: 1}  # keys are structure
    message = redactor.message(
        Message(
            role="user",
            content=[{"type": "text", "text": secret}],
            tool_name=secret,
            tool_calls=[{"function": {"arguments": json.dumps({"cmd": f"curl {secret}"})}}],
            tool_call_id=secret,
            reasoning=secret,
            extra={"z": secret},
        )
    )
    assert secret not in repr(message)
    assert redactor.counts == {"github-token": 13}


def test_names_of_fields_count() -> None:
    value: Json = {
        "password": "a b",
        "user": "me",
        "nested": {"apiToken": KEY, "passwords": ["one", "two"], "count": 5, "none": None},
        "pwd": "/srv/agent",
        "client_secret": "",
    }
    assert Redactor().value(value) == {
        "password": "[redacted:password]",
        "user": "me",
        "nested": {
            "apiToken": "[redacted:credential]",
            "passwords": ["[redacted:password]", "[redacted:password]"],
            "count": 5,
            "none": None,
        },
        "pwd": "/srv/agent",
        "client_secret": "",
    }


def test_json_inside_text_keeps_its_form() -> None:
    """Everything but the literal that held the secret stays to the byte."""
    text = '{ "n" : 1.50, "é":"\\u00e9" ,"a":[1e5, {"password" :\t"x\\"y"}, "password"],"b":1}'
    redacted = Redactor().text(text)
    assert redacted == text.replace('"x\\"y"', '"[redacted:password]"')
    twice = json.dumps({"arguments": text})
    assert json.loads(json.loads(Redactor().text(twice))["arguments"])["a"][1] == {
        "password": "[redacted:password]"
    }


def test_a_long_text_takes_its_time_and_no_more() -> None:
    """Text made to be tried again and again; it ends in well under a second, or not at all."""
    for text in (
        "password:" * 50_000,
        "-----BEGIN PRIVATE KEY-----" * 20_000,
        "-----END PRIVATE KEY-----\n" * 20_000,
        "-----BEGIN PRIVATE KEY-----\n" + "+" * 300_000 + "?",
        ("A" * 70 + "\n") * 4_000 + "-----END PRIVATE KEY-----",
        "a://" + "b" * 300_000,
        "eyJ" * 100_000,
        "xoxb" + "-a" * 100_000,
        '"' * 200_000,
        "key = '" * 50_000,
        "[" + '"a",' * 100_000 + '"b"]',
        "basic " + "A" * 300_000,
    ):
        Redactor().text(text)
