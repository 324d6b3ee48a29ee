"""The program that agents start for a hook, and the helper that answers for it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.hooks import client
from holdfast.hooks.helper import Helper
from holdfast.hooks.reply import SILENT, Reply
from holdfast.stores.loop_book import FileLoopBook
from tests.ending_helpers import end_helper, helper_of, refuse_helpers

CLIENT = Path(client.__file__)
PERL = shutil.which("perl")
NODE = shutil.which("node")
WAYS = ("python", pytest.param("perl", marks=pytest.mark.skipif(not PERL, reason="no Perl")))


class Hooked:
    """A project, a home and a folder for the helper; hooks run as an agent runs them."""

    def __init__(self, place: Path) -> None:
        self.home, self.project = place / "home", place / "site"
        self.runtime = place / "run"
        self.runtime.mkdir(mode=0o700)
        self.project.mkdir()
        (self.project / "a.txt").write_text("one")
        self.number = 0

    @property
    def folder(self) -> Path:
        return self.runtime / "holdfast"

    def run(
        self, way: str = "python", *, tool: str = "Bash", closed: str = "open", raw: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        self.number += 1
        said = {
            "session_id": "s1",
            "cwd": str(self.project),
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": {"command": f"step {self.number}"},
            "tool_use_id": f"c{self.number}",
        }
        words = [closed, str(self.home)]
        python = [sys.executable, "-I", "-S", str(CLIENT), "claude-code", *words]
        perl = [str(PERL), str(CLIENT.with_suffix(".pl")), "claude-code", *words, sys.executable]
        return subprocess.run(
            perl if way == "perl" else python,
            input=raw or json.dumps(said, separators=(",", ":")).encode(),
            capture_output=True,
            check=False,
            timeout=60,
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.runtime), "API_KEY": "secret"},
        )

    def seen(self) -> int:
        """How many tools were counted."""
        book = FileLoopBook(self.home)
        return book.look("claude-code", "s1").work.guarded.iterations

    def wait_for_helper(self) -> int:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            process = helper_of(self.folder)
            if process is not None and (self.folder / "hooks.sock").exists():
                return process
            time.sleep(0.02)
        raise AssertionError("no helper came")


@pytest.fixture
def hooked(tmp_path: Path) -> Iterator[Hooked]:
    made = Hooked(tmp_path)
    yield made
    refuse_helpers(made.folder)


@pytest.mark.parametrize("way", WAYS)
def test_a_hook_works_without_a_helper_with_one_and_after_it_was_killed(
    way: str, hooked: Hooked
) -> None:
    assert hooked.run(way).returncode == 0
    assert hooked.seen() == 1
    first = hooked.wait_for_helper()
    assert hooked.run(way).returncode == 0
    assert hooked.seen() == 2
    assert end_helper(hooked.folder)  # its socket stays behind
    assert hooked.run(way).returncode == 0
    assert hooked.seen() == 3
    assert hooked.wait_for_helper() != first
    calls = Loop(Place(hooked.home)).calls("s1")
    assert [bool(each.checkpoint) for each in calls] == [True, True, True]


@pytest.mark.parametrize("way", WAYS)
def test_a_helper_that_dies_in_the_middle_of_an_answer_costs_nothing(
    way: str, hooked: Hooked
) -> None:
    hooked.folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(hooked.folder / "hooks.sock"))
        server.listen()

        def torn() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65_536)
                peer.sendall(b"0 500 0\n{")

        thread = threading.Thread(target=torn)
        thread.start()
        done = hooked.run(way)
        thread.join()
    assert (done.returncode, done.stdout) == (0, b"")
    assert hooked.seen() == 1


def test_hooks_while_the_helper_is_killed_again_and_again(hooked: Hooked) -> None:
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.15):
            end_helper(hooked.folder)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for number in range(12):
            (hooked.project / "a.txt").write_text(str(number))
            assert hooked.run().returncode == 0
    finally:
        stop.set()
        killer.join()
    calls = Loop(Place(hooked.home)).calls("s1")
    # One that was killed after it had written everything is asked again: twice is fine, never less.
    assert {each.call for each in calls} == {f"c{number + 1}" for number in range(12)}
    assert all(each.checkpoint for each in calls)


def test_a_folder_that_others_can_enter_is_not_used(hooked: Hooked) -> None:
    hooked.folder.mkdir(mode=0o755)
    hooked.folder.chmod(0o755)
    assert hooked.run().returncode == 0
    assert hooked.seen() == 1
    time.sleep(0.3)
    assert not (hooked.folder / "hooks.sock").exists()


def test_there_is_one_helper_and_it_ends_when_it_is_idle(hooked: Hooked) -> None:
    hooked.folder.mkdir(mode=0o700)
    helper = Helper(hooked.folder, idle=0.3)
    thread = threading.Thread(target=helper.run)
    thread.start()
    hooked.wait_for_helper()
    assert Helper(hooked.folder).run() == 1
    assert hooked.run().returncode == 0
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert not (hooked.folder / "hooks.sock").exists()
    assert hooked.seen() == 1


def test_the_helper_does_not_keep_the_keys_of_the_agent(hooked: Hooked) -> None:
    hooked.run()
    process = hooked.wait_for_helper()
    given = Path(f"/proc/{process}/environ").read_bytes()
    assert b"HOME=" in given
    assert b"secret" not in given


def test_what_only_reads_is_answered_at_once(hooked: Hooked) -> None:
    done = hooked.run(tool="Read")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not hooked.home.exists()


def test_only_the_tool_itself_says_that_it_reads(hooked: Hooked) -> None:
    said = {
        "tool_input": {"tool_name": "Grep", "text": '\\"{"'},
        "session_id": "s1",
        "cwd": str(hooked.project),
        "hook_event_name": "PreToolUse",
    }
    for fields in ({**said, "tool_name": "mcp__x__y"}, {"tool_name": "mcp__x__y", **said}, said):
        raw = json.dumps(fields, separators=(",", ":")).encode()
        assert not client._changes_nothing("claude-code", raw)
    said["tool_input"] = {"text": '\\"{"'}
    raw = json.dumps({**said, "tool_name": "Grep"}, separators=(",", ":")).encode()
    assert client._changes_nothing("claude-code", raw)


@pytest.mark.parametrize(
    ("closed", "how", "code"), [("open", "allow", 1), ("closed", "allow", 2), ("open", "block", 2)]
)
def test_a_huge_input_is_refused_at_once(closed: str, how: str, code: int, hooked: Hooked) -> None:
    (hooked.home / "operations").mkdir(parents=True)
    (hooked.home / "config.toml").write_text(f'[hooks]\nhelper = false\non_failure = "{how}"\n')
    started = time.monotonic()
    done = hooked.run(closed=closed, raw=b"x" * (61 * 1024**2))
    assert done.returncode == code
    assert b"is the most" in done.stderr
    assert time.monotonic() - started < 10


def test_a_helper_with_a_thread_that_never_ends_ends_all_the_same(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()

    def answer(_: socket.socket) -> Reply:
        never.wait()
        return SILENT

    monkeypatch.setattr("holdfast.hooks.helper._STUCK", 0.2)
    monkeypatch.setattr("holdfast.hooks.helper._SLOW_CLIENT", 0.2)
    hooked.folder.mkdir(mode=0o700)
    helper = Helper(hooked.folder)
    monkeypatch.setattr(helper, "_answer", answer)
    thread = threading.Thread(target=helper.run, daemon=True)
    thread.start()
    hooked.wait_for_helper()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(hooked.folder / "hooks.sock"))
        thread.join(timeout=10)
    assert not thread.is_alive()
    never.set()


@pytest.mark.skipif(not NODE, reason="no Node.js")
@pytest.mark.parametrize("said", ['{"notice": "it is so"}', ""])
def test_the_plugin_of_opencode_shows_notices(said: str, tmp_path: Path) -> None:
    code = f"process.stdin.resume(); process.stdout.write({said!r}); process.exit({int(not said)})"
    text = (CLIENT.parent / "opencode_plugin.js").read_text()
    text = text.replace("/*COMMAND*/ []", json.dumps([NODE, "-e", code]))
    (tmp_path / "plugin.mjs").write_text(text)
    (tmp_path / "main.mjs").write_text(
        """
        import { Holdfast } from "./plugin.mjs"
        const client = {
          tui: { showToast: async ({ body }) => console.log("toast", body.message) },
          app: { log: async ({ body }) => console.log("log", body.message) },
        }
        const hooks = await Holdfast({ client, directory: "/" })
        await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s" }, { args: {} })
        """
    )
    done = subprocess.run(
        [str(NODE), str(tmp_path / "main.mjs")], capture_output=True, text=True, check=True
    )
    message = "it is so" if said else "Holdfast: the hook failed: exit code 1"
    assert done.stdout.splitlines() == [f"toast {message}", f"log {message}"]


def test_a_helper_can_be_turned_off(hooked: Hooked) -> None:
    (hooked.home / "operations").mkdir(parents=True)
    (hooked.home / "config.toml").write_text("[hooks]\nhelper=false\n")
    assert hooked.run().returncode == 0
    assert hooked.seen() == 1
    time.sleep(0.3)
    assert not hooked.folder.exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("closed", "code"), [("open", 1), ("closed", 2)])
def test_nonsense_is_said_and_the_user_decides(
    way: str, closed: str, code: int, hooked: Hooked
) -> None:
    done = hooked.run(way, closed=closed, raw=b"nonsense")
    assert done.returncode == code
    assert b"is not JSON" in done.stderr
    assert done.stdout == b""


def test_the_client_loads_next_to_nothing() -> None:
    """What it imports before it asks the helper, an agent waits for."""
    code = (
        "import sys; before = set(sys.modules);"
        f" exec(open({str(CLIENT)!r}).read(), {{'__name__': 'x', '__file__': ''}});"
        " print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
