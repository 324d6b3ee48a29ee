"""A realistic sample home: stored sessions and files in the proportions seen in the field.

728 sessions in the store, files of some of them, files of sessions that the store never knew,
request dumps, and a file of unrelated state. Texts are short, so that the sample is created in a
second or two. The same seed creates the same home.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.homes.kind import DATABASE
from holdfast.homes.sessions.folder import FOLDER
from holdfast.model.session import EndReason, Message, Relation, Session, Tokens
from holdfast.policy.rules import DAY, TRIVIAL_MAX
from holdfast.stores import processes
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.value import dataclass, replace

_CRON_SHARE = 0.79  # of those without a parent: 0.735 of all
_TRIVIAL_SHARE = 0.69  # of those that ended: 0.673 of all
_TITLED_SHARE = 0.15
_PARENT_SHARE = 0.15
_PINNED_SHARE = 0.04
_ABANDONED_SHARE = 0.03
_ABANDONED_DAYS = (2, 120)
_OLDEST_DAYS = 240
_MOST_MESSAGES = 300
_SECONDS_BETWEEN = 20.0
_ID_DIGITS = 6
_COST_PER_TOKEN = 3e-6
_SOURCES = ("cli", "telegram", "discord")
_MODELS = ("sample-large", "sample-large", "sample-small")
_JOBS = ("backup-check", "inbox-digest", "price-watch", "log-triage")
_TITLES = ("Flaky storage test", "Travel in June", "Move to the new disk", "Tax papers")
_SENTENCES = (
    "The nightly run finished without errors; 14 mails were filed.",
    "Please look at the failing test in the storage module and propose a fix.",
    "I read the file and found the retry loop that never backs off.",
    "The disk on the build machine is nearly full again.",
    "Done. The change is on a branch, with a test that failed before.",
    "Price of the watched item is unchanged since yesterday.",
)

#: A conversation that a user searches for months later, and the word to find it by. Its id is the
#: same in every sample, whenever it is created, so that the examples in the docs can be typed.
MEMORABLE_WORD = "sourdough"
MEMORABLE_ID = "20260214_093000_5ead00"
_MEMORABLE_DAYS = 130
_MEMORABLE = (
    "How often do I feed a sourdough starter that lives in the fridge?",
    "Once a week is enough. Take it out the evening before you bake.",
    "And which flour?",
    "Whole rye for the starter, whatever you like for the bread.",
    "It rose. Thank you!",
    "Good. Keep a spoonful back for the next one.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A session with its messages; `abandoned` if its process died before the session ended."""

    session: Session
    messages: tuple[Message, ...]
    abandoned: bool = False


def memorable(chance: random.Random, now: float) -> Sampled:
    """The conversation with `MEMORABLE_WORD` in it, from telegram."""
    ended = now - _MEMORABLE_DAYS * DAY
    messages = _said(chance, _MEMORABLE, ended)
    made = _ended("telegram", messages, ended, _hexadecimal(chance), title="Bread")
    return replace(made, session=replace(made.session, id=MEMORABLE_ID))


def sampled(chance: random.Random, now: float, count: int) -> list[Sampled]:
    """This many sessions, each with a unique id, parents before their children."""
    made: dict[str, Sampled] = {}
    while len(made) < count:
        one = _one(chance, now, len(made))
        made.setdefault(one.session.id, one)
        if one.session.source != "cron" and chance.random() < _PARENT_SHARE:
            for child in _children(chance, one.session):
                made.setdefault(child.session.id, child)
    return list(made.values())[:count]


def _one(chance: random.Random, now: float, number: int) -> Sampled:
    if number == 0:
        return _open(chance, "cli", now)
    # More recent ones than old ones, as with an agent whose use grows.
    last_active = now - DAY * _OLDEST_DAYS * chance.random() ** 1.5
    if chance.random() < _CRON_SHARE:
        messages = _said(chance, _texts(chance), last_active)
        job = chance.choice(_JOBS)
        return _ended("cron", messages, last_active, job, reason=EndReason.DELIVERED)
    if chance.random() < _ABANDONED_SHARE:
        days = chance.uniform(*_ABANDONED_DAYS)
        return _open(chance, "telegram", now - days * DAY, abandoned=True)
    return _ended(
        chance.choice(_SOURCES),
        _said(chance, _texts(chance), last_active),
        last_active,
        _hexadecimal(chance),
        title=chance.choice(_TITLES) if chance.random() < _TITLED_SHARE else None,
        model=chance.choice(_MODELS),
        pinned=chance.random() < _PINNED_SHARE,
    )


def _children(chance: random.Random, parent: Session) -> Iterator[Sampled]:
    """Delegates, most of them short, and now and then a branch."""
    for relation in chance.choices(list(Relation), weights=(1, 1, 6), k=chance.randint(1, 3)):
        is_delegate = relation is Relation.DELEGATE
        messages = _said(chance, _texts(chance), parent.last_active_at)
        yield _ended(
            "subagent" if is_delegate else parent.source,
            messages,
            parent.last_active_at,
            _hexadecimal(chance),
            parent_id=parent.id,
            relation=relation,
        )


def _ended(
    source: str,
    messages: Sequence[Message],
    at: float,
    mark: str,
    *,
    reason: EndReason = EndReason.ENDED,
    **more: Any,
) -> Sampled:
    return _made(source, messages, at, mark, ended_at=at, end_reason=reason, **more)


def _open(chance: random.Random, source: str, at: float, *, abandoned: bool = False) -> Sampled:
    messages = _said(chance, _texts(chance, trivial=False), at)
    return replace(_made(source, messages, at, _hexadecimal(chance)), abandoned=abandoned)


def _made(
    source: str,
    messages: Sequence[Message],
    at: float,
    mark: str,
    *,
    model: str = _MODELS[0],
    **more: Any,
) -> Sampled:
    started = at - _SECONDS_BETWEEN * max(0, len(messages) - 1)
    session = Session(
        id=_id(source, started, mark),
        source=source,
        started_at=started,
        last_active_at=at,
        model=model,
        **more,
    )
    return Sampled(session=session, messages=tuple(messages))


def _id(source: str, started: float, mark: str) -> str:
    stamp = datetime.fromtimestamp(started, UTC).strftime("%Y%m%d_%H%M%S")
    return f"cron_{mark}_{stamp}" if source == "cron" else f"{stamp}_{mark}"


def _hexadecimal(chance: random.Random) -> str:
    return f"{chance.randrange(16**_ID_DIGITS):0{_ID_DIGITS}x}"


def _texts(chance: random.Random, *, trivial: bool | None = None) -> list[str]:
    if trivial is None:
        trivial = chance.random() < _TRIVIAL_SHARE
    if trivial:
        count = chance.randint(0, TRIVIAL_MAX)
    else:
        count = TRIVIAL_MAX + 1 + int(chance.paretovariate(1.1) * 10) % _MOST_MESSAGES
    return [" ".join(chance.choices(_SENTENCES, k=chance.randint(1, 12))) for _ in range(count)]


def _said(chance: random.Random, texts: Sequence[str], last: float) -> list[Message]:
    """User and model take turns, until the time `last`."""
    first = last - _SECONDS_BETWEEN * (len(texts) - 1)
    return [
        _answer(chance, text, first + _SECONDS_BETWEEN * number)
        if number % 2
        else Message(role="user", content=text, timestamp=first + _SECONDS_BETWEEN * number)
        for number, text in enumerate(texts)
    ]


def _answer(chance: random.Random, text: str, at: float) -> Message:
    """The model's answers report their usage."""
    tokens = Tokens(
        input=chance.randint(200, 8_000), output=len(text) // 4, cached=chance.randint(0, 8_000)
    )
    cost = round(tokens.total * _COST_PER_TOKEN, 6)
    return Message(role="assistant", content=text, timestamp=at, tokens=tokens, cost=cost)


# --- The home -------------------------------------------------------------------------------------


_SESSIONS = 728
_FILE_SHARE = 0.4
_ORPHANS = 60
_DUMPS = 120
_DUMPED_MESSAGES = 40
_PRIVATE = 0o600
#: A process id larger than any that the system assigns, so that there is no such process.
_NOBODY = 2**30


def build(root: Path, now: float, seed: int = 7) -> str:
    """Fill an empty folder with a sample home that was in use just before `now`.

    Returns the id of the session in which `MEMORABLE_WORD` was said.
    """
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    make_private_dir(root / FOLDER)
    one = memorable(chance, now)
    stored = [one, *sampled(chance, now, _SESSIONS - 1)]
    known = {each.session.id for each in stored}
    orphans = [each for each in sampled(chance, now, _ORPHANS) if each.session.id not in known]
    _store(root / DATABASE, stored, now)
    _write_files(root / FOLDER, chance, stored, orphans)
    return one.session.id


def _store(path: Path, sessions: Sequence[Sampled], now: float) -> None:
    """Add all sessions in one transaction, because many would be slow."""
    store = SqliteSessionStore(path)
    dead = replace(processes.this_process(), process=_NOBODY)
    with SqliteImport(store) as importing, importing.transaction():
        for each in sessions:
            importing.add(each.session, each.messages, now=now)
            if each.session.pinned:
                store.pin(each.session.id, pinned=True)
            if each.abandoned:
                store.hold(each.session.id, dead, now=each.session.last_active_at)
    store.close()


def _write_files(
    folder: Path, chance: random.Random, stored: Sequence[Sampled], orphans: Sequence[Sampled]
) -> None:
    with_file = [each for each in stored if chance.random() < _FILE_SHARE]
    for each in (*with_file, *orphans):
        _write(folder / f"session_{each.session.id}.json", each, _transcript(each))
    for name, each, content in _dumps(chance, [*stored, *orphans]):
        _write(folder / name, each, content)
    newest = stored[1]
    _write(folder / "sessions.json", newest, {"agent:main": newest.session.id})


def _transcript(each: Sampled) -> dict[str, Any]:
    session = each.session
    return {
        "session_id": session.id,
        "platform": session.source,
        "session_start": datetime.fromtimestamp(session.started_at, UTC).isoformat(),
        "messages": _plain(each),
    }


def _plain(each: Sampled) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": message.content} for message in each.messages]


def _dumps(
    chance: random.Random, sessions: Sequence[Sampled]
) -> Iterator[tuple[str, Sampled, dict[str, Any]]]:
    for each in chance.sample(sessions, k=_DUMPS):
        session = each.session
        when = datetime.fromtimestamp(session.last_active_at, UTC).strftime("%Y%m%d_%H%M%S")
        request = _plain(each)[:_DUMPED_MESSAGES]
        dump = {"session_id": session.id, "reason": "timeout", "request": request}
        yield f"request_dump_{session.id}_{when}_{chance.randrange(10**6):06}.json", each, dump


def _write(path: Path, each: Sampled, content: dict[str, Any]) -> None:
    """Write a file as old as its session. It is not flushed to the disk: it is only a sample."""
    path.touch(mode=_PRIVATE, exist_ok=False)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    moment = each.session.last_active_at
    os.utime(path, (moment, moment))
