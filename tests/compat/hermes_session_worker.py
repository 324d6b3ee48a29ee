"""Work in Hermes's own classes; runs in the environment of a release, never in ours.

python hermes_session_worker.py HOME WORK [ARGUMENT]...   prints one JSON document
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

HOME = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
os.environ["HERMES_HOME"] = str(HOME)

from hermes_state import SessionDB  # type: ignore[import-not-found]  # noqa: E402

DAY = 86_400.0
_moment = [0.0]
_real = time.time


def _opened() -> Any:
    return SessionDB(HOME / "state.db")


def _at(moment: float) -> None:
    """Hermes reads the clock itself: from now on it is this late, and later with each look."""

    def tick() -> float:
        _moment[0] += 0.001
        return _moment[0]

    _moment[0] = moment
    time.time = tick


def _can(store: Any, name: str) -> bool:
    return hasattr(store, name)


def build(now: str) -> dict[str, Any]:
    """One session of every sort, with its files."""
    base = float(now)
    HOME.mkdir(parents=True, exist_ok=True)
    store = _opened()

    def session(
        name: str,
        days: float,
        source: str = "cli",
        *,
        end: str | None = "cli_close",
        texts: tuple[Any, ...] = ("say hello", "hello there"),
        **more: Any,
    ) -> None:
        _at(base - days * DAY)
        store.create_session(name, source, **more)
        for number, text in enumerate(texts):
            store.append_message(name, "assistant" if number % 2 else "user", text)
        if end:
            store.end_session(name, end)

    parts = [{"type": "text", "text": "look at this"}, {"type": "image_url", "image_url": {}}]
    session(
        "20260101_101010_aaaaaa", 200, model="some/model", texts=(parts, "a zebra 日本語テスト")
    )
    _at(base - 200 * DAY + 60)
    store.append_message(
        "20260101_101010_aaaaaa",
        "assistant",
        None,
        tool_calls=[{"id": "c1", "type": "function"}],
        reasoning="because",
        token_count=12,
        finish_reason="tool_calls",
    )
    store.append_message(
        "20260101_101010_aaaaaa", "tool", "done ü", tool_name="terminal", tool_call_id="c1"
    )
    store.update_token_counts(
        "20260101_101010_aaaaaa",
        input_tokens=1000,
        output_tokens=50,
        model="some/model",
        estimated_cost_usd=0.25,
    )
    session("cron_backup_20260102_030405", 180, "cron")
    session("20260103_000000_titled", 170)
    store.set_session_title("20260103_000000_titled", "A title")
    session("20260104_000000_parent", 160, end="compression")
    session("20260104_000100_follow", 159, parent_session_id="20260104_000000_parent")
    session(
        "20260105_000000_branch",
        150,
        parent_session_id="20260104_000100_follow",
        model_config={"_branched_from": "20260104_000100_follow"},
    )
    session(
        "20260106_000000_delega",
        149,
        "subagent",
        parent_session_id="20260105_000000_branch",
        model_config={"_delegate_from": "20260105_000000_branch"},
    )
    session("api:chat/1", 140, "api_server")
    session("20260107_000000_empty0", 130, texts=())
    session("20260108_000000_routed", 120, "telegram", end=None)
    session("20260109_000000_aband0", 110, end=None)
    session("20260501_000000_recent", 3)
    session("20260502_000000_open00", 0.1, end=None)
    if _can(store, "save_gateway_routing_entry"):
        store.save_gateway_routing_entry(
            "agent:main:telegram:dm:1",
            json.dumps({"session_id": "20260108_000000_routed"}),
        )
    store.apply_telegram_topic_migration()
    store.bind_telegram_topic(
        chat_id="7",
        thread_id="9",
        user_id="7",
        session_key="agent:main:telegram:dm:7:9",
        session_id="20260103_000000_titled",
    )
    if _can(store, "try_acquire_compression_lock"):
        store.try_acquire_compression_lock("20260104_000000_parent", "somebody")
    ids = [row[0] for row in store._conn.execute("SELECT id FROM sessions").fetchall()]
    store.close()
    time.time = _real
    _write_files(ids, base)
    return {"sessions": ids}


def example(now: str) -> dict[str, Any]:
    """A home that was used for most of a year: what the manual shows."""
    base, chance = float(now), random.Random(1)
    HOME.mkdir(parents=True, exist_ok=True)
    store = _opened()
    words = ["backup", "report", "deploy", "invoice", "weather", "review", "database", "letter"]
    ids = []
    for number in range(728):
        days = 300 * (1 - number / 728) + 0.1
        is_cron = chance.random() < 0.735
        stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(base - days * DAY))
        name = f"cron_backup_{stamp}" if is_cron else f"{stamp}_{chance.getrandbits(24):06x}"
        source = "cron" if is_cron else chance.choice(["cli", "cli", "telegram", "discord"])
        _at(base - days * DAY)
        store.create_session(name, source, model="some/model")
        for turn in range(chance.choice([2, 2, 4]) if is_cron else chance.randint(2, 60)):
            text = " ".join(chance.choices(words, k=chance.randint(20, 400)))
            store.append_message(name, "assistant" if turn % 2 else "user", text)
        store.update_token_counts(name, input_tokens=9_000, output_tokens=700, model="some/model")
        store.end_session(name, "cron_complete" if is_cron else "cli_close")
        ids.append(name)
    store.close()
    time.time = _real
    _write_transcripts(ids, base, chance)
    return {"sessions": len(ids)}


def _write_transcripts(ids: list[str], base: float, chance: random.Random) -> None:
    store = _opened()
    folder = HOME / "sessions"
    folder.mkdir(exist_ok=True)
    for name in ids:
        said = store.get_messages(name)
        moment = said[-1]["timestamp"]
        files = {f"session_{name}.json": {"session_id": name, "messages": said}}
        if chance.random() < 0.25:
            stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(moment))
            files[f"request_dump_{name}_{stamp}_000001.json"] = {"messages": said}
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content, default=str))
            os.utime(folder / file, (moment, moment))
    store.close()


def grow(now: str, many: str) -> dict[str, Any]:
    """More sessions that ended long ago."""
    store = _opened()
    ids = [f"20250101_{number:06d}_abcdef" for number in range(int(many))]
    for days, name in enumerate(ids, start=100):
        _at(float(now) - days * DAY)
        store.create_session(name, "cli")
        for text in range(8):
            store.append_message(name, "user", f"word{text} of an old session, hippo")
        store.end_session(name, "cli_close")
    store.close()
    time.time = _real
    _write_files(ids, float(now))
    return {"sessions": ids}


def _write_files(ids: list[str], base: float) -> None:
    folder = HOME / "sessions"
    folder.mkdir(exist_ok=True)
    for name in ids:
        stem = stems([name])[name]
        if "/" in stem:
            continue  # no release could write it
        text = json.dumps({"session_id": name, "platform": "cli", "messages": []})
        for file in (f"session_{stem}.json", f"request_dump_{stem}_20260101_010101_000001.json"):
            (folder / file).write_text(text)
        if "/" not in name:
            (folder / f"{name}.jsonl").write_text(text + "\n")
    (folder / "sessions.json").write_text(
        json.dumps({"k": {"session_id": "20260108_000000_routed"}})
    )
    (folder / "notes.json").write_text("{}")
    for path in folder.iterdir():
        os.utime(path, (base - 100 * DAY, base - 100 * DAY))


def stems(ids: list[str]) -> dict[str, str]:
    """What this release calls sessions in the names of files."""
    try:
        from run_agent import (  # type: ignore[import-not-found]
            _safe_session_filename_component as safe,
        )
    except ImportError:
        return {name: name for name in ids}
    return {name: safe(name) for name in ids}


def named(ids: str) -> dict[str, str]:
    return stems(json.loads(ids))


def look(query: str) -> dict[str, Any]:
    """What Hermes itself sees: its list, its search, one session as it would resume it."""
    store = _opened()
    listed = store.list_sessions_rich(limit=1000, include_children=True)
    found = store.search_messages(query, limit=1000)
    told = {row["id"]: store.get_messages_as_conversation(row["id"]) for row in listed}
    check = store._conn.execute("PRAGMA integrity_check").fetchone()[0]
    keys = store._conn.execute("PRAGMA foreign_key_check").fetchall()
    document = {
        "listed": sorted(row["id"] for row in listed),
        "found": sorted({row["session_id"] for row in found}),
        "told": told,
        "integrity": check,
        "foreign_keys": len(keys),
    }
    store.close()
    return document


def resume(name: str) -> dict[str, Any]:
    """Go on with a session as Hermes does."""
    store = _opened()
    store.reopen_session(name)
    number = store.append_message(name, "user", "and on it goes")
    messages = len(store.get_messages(name))
    store.end_session(name, "cli_close")
    store.close()
    return {"number": number, "messages": messages}


def prune(days: str) -> dict[str, Any]:
    store = _opened()
    pruned = store.prune_sessions(older_than_days=int(days), sessions_dir=HOME / "sessions")
    vacuumed = store.vacuum()
    store.close()
    return {"pruned": pruned, "vacuumed": vacuumed}


def write_on(seconds: str, old: str = "[]") -> dict[str, Any]:
    """Create, append, end, search and go on with old sessions until the time is over; whatever
    fails is told. Of what has no end not a message may be missing at the end."""
    store = _opened()
    print("ready", flush=True)
    until, failures = _real() + float(seconds), []
    resumable, ended = list(json.loads(old)), []
    expected: dict[str, int] = {}
    resumed: dict[str, int] = {}
    number = 0
    while _real() < until:
        number += 1
        name = f"live_{os.getpid()}_{number}"
        try:
            store.create_session(name, "cli")
            for text in range(5):
                store.append_message(name, "user", f"word{text} of {name} giraffe")
            expected[name] = 5
            if number % 2:
                store.end_session(name, "cli_close")
                ended.append(name)
            store.search_messages("giraffe", limit=5)
            if resumable and number % 10 == 0:
                resumed |= _gone_on_with(store, resumable)
        except Exception as error:  # noqa: BLE001 - a test asks for every one
            failures.append(f"{type(error).__name__}: {error}")
    expected |= resumed
    counts = {name: len(store.get_messages(name)) for name in expected}
    store.close()
    return {
        "written": number,
        "resumed": len(resumed),
        "failures": failures,
        "open_and_whole": all(counts[n] == expected[n] for n in expected if n not in ended),
        "ended_and_whole": all(counts[n] in (0, expected[n]) for n in ended),
        "ended_and_gone": sum(counts[n] == 0 for n in ended),
    }


def _gone_on_with(store: Any, resumable: list[str]) -> dict[str, int]:
    """Go on with one of these that is there: from then on it must stay."""
    for name in list(resumable):
        store.reopen_session(name)
        found = store.get_session(name)
        if found is not None and found["ended_at"] is None:
            resumable.remove(name)
            before = len(store.get_messages(name))
            for text in range(3):
                store.append_message(name, "user", f"and on {text} giraffe")
            return {name: before + 3}
    return {}


def hold(name: str) -> dict[str, Any]:
    """Hold a session open as Hermes does where sessions are limited, until stdin ends."""
    from hermes_cli.active_sessions import (  # type: ignore[import-not-found]
        try_acquire_active_session,
    )

    lease, why = try_acquire_active_session(
        session_id=name, surface="cli", config={"max_concurrent_sessions": 5}
    )
    print("ready", flush=True)
    sys.stdin.read()
    return {"held": lease is not None, "why": why}


def rules(titles: str, queries: str) -> dict[str, Any]:
    """What Hermes itself makes of titles, of turns taken back, of its archive and of delegates."""
    store = _opened()
    sizes = {"small": 2, "large": 30}
    for name, parent, mark in (
        ("p", None, None),
        ("small", "p", "p"),
        ("large", "p", "p"),
        ("inner", "small", "small"),
        ("elsewhere", "branch", "p"),
        ("branch", "p", None),
    ):
        if parent and store.get_session(parent) is None:
            store.create_session(parent, "cli")
        config = {"_delegate_from": mark} if mark else None
        store.create_session(name, "cli", parent_session_id=parent, model_config=config)
        for number in range(sizes.get(name, 1)):
            store.append_message(name, "user" if number % 2 == 0 else "assistant", f"{name} said")
        store.end_session(name, "cli_close")
    store.create_session("words", "cli")
    said = [
        store.append_message("words", "user" if number % 2 == 0 else "assistant", text)
        for number, text in enumerate(
            ["我的记忆力很好", "用docker部署", "记忆", "也是记忆", "记忆五", "x"]
        )
    ]
    told: dict[str, Any] = {"said": said}
    if _can(store, "rewind_to_message"):
        store.rewind_to_message("words", said[4])
    if _can(store, "record_auxiliary_usage"):
        store.record_auxiliary_usage(
            "words", "vision", model="small/eye", input_tokens=70, output_tokens=7
        )
    if _can(store, "set_session_archived"):
        store.set_session_archived("branch", True)
    store.end_session("words", "cli_close")
    told["found"] = {
        query: sorted(row["id"] for row in store.search_messages(query, limit=100))
        for query in json.loads(queries)
    }
    told["titles"] = [_titled(store, title) for title in json.loads(titles)]
    store.close()
    return told


def _titled(store: Any, title: str) -> str | None:
    """A title as Hermes would store it, or that it would not."""
    try:
        cleaned: str | None = store.sanitize_title(title)
    except ValueError:
        return "refused"
    return cleaned


def delete(name: str) -> dict[str, Any]:
    store = _opened()
    store.delete_session(name)
    left = [row[0] for row in store._conn.execute("SELECT id FROM sessions").fetchall()]
    store.close()
    return {"left": sorted(left)}


def configuration() -> dict[str, Any]:
    """Every key that the release knows at the root of its configuration, with its defaults."""
    import yaml
    from hermes_cli import config  # type: ignore[import-not-found]

    known = dict.fromkeys(getattr(config, "_KNOWN_ROOT_KEYS", ()))
    (HOME / "config.yaml").write_text(yaml.safe_dump({**known, **config.DEFAULT_CONFIG}))
    return {"keys": len({**known, **config.DEFAULT_CONFIG})}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[2]](*sys.argv[3:]), default=str))
