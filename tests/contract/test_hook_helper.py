"""The program that agents start for a hook, and the helper that answers for it."""

from __future__ import annotations

import contextlib
import json
import os
import posix
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.connect.settings_entries import TIMEOUT
from holdfast.hooks import client
from holdfast.hooks.helper import Helper, run
from holdfast.hooks.reply import SILENT, Reply
from holdfast.stores.connected_sessions import FileLoopBook
from tests.ending_helpers import end_helper, helper_of, helpers_of, refuse_helpers

CLIENT = Path(client.__file__)
PERL = shutil.which("perl")
#: In the place of the Python that the Perl client leaves the work to: it has to do it itself.
NOTHING = "/nothing/here"
USER_HOME = os.fsdecode(posix.environ.get(b"HOME", b""))
NODE = shutil.which("node")
#: For what takes seconds.
ONE_WAY = (
    pytest.param("python", marks=[pytest.mark.deep] if PERL else []),
    pytest.param("perl", marks=pytest.mark.skipif(not PERL, reason="no Perl")),
)
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
        self.client = CLIENT
        self.folder = self.runtime / "holdfast"

    def run(
        self,
        way: str = "python",
        *,
        tool: str = "Bash",
        closed: str = "open",
        raw: bytes = b"",
        environ: dict[str, str] | None = None,
        umask: int = -1,
        behind: str = sys.executable,
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
        usual = {"XDG_RUNTIME_DIR": str(self.runtime), "HOME": USER_HOME, "API_KEY": "secret"}
        return subprocess.run(
            self.command(way, closed, behind),
            input=raw or json.dumps(said, separators=(",", ":")).encode(),
            capture_output=True,
            check=False,
            timeout=60,
            env={**os.environ, **usual, **(environ or {})},
            umask=umask,
        )

    def command(self, way: str, closed: str = "open", behind: str = sys.executable) -> list[str]:
        words = ["claude-code", closed, str(self.home)]
        if way == "perl":
            return [str(PERL), str(self.client.with_suffix(".pl")), *words, behind]
        return [sys.executable, "-I", "-S", str(self.client), *words]

    def install_another(self) -> None:
        """From now on hooks run from another folder with the same code."""
        package = self.home.parent / "other" / "holdfast"
        shutil.copytree(CLIENT.parent, package / "hooks")
        shutil.copy2(CLIENT.parent.parent / "__init__.py", package)
        for path in CLIENT.parent.parent.iterdir():
            if path.name != "__pycache__" and not (package / path.name).exists():
                (package / path.name).symlink_to(path)
        self.client = package / "hooks" / CLIENT.name

    def rewrite(self, name: str, old: str, new: str) -> None:
        """Change the code of the other installation."""
        path = self.client.with_name(name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def seen(self) -> int:
        """How many tools were counted."""
        book = FileLoopBook(self.home)
        return book.look("claude-code", "s1").work.guarded.iterations

    def wait_for_helper(self) -> int:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            process = helper_of(self.folder)
            if process is not None and any(self.folder.glob("*.sock")):
                return process
            time.sleep(0.02)
        raise AssertionError("no helper came")

    @contextmanager
    def answering(self, folder: Path, said: bytes) -> Iterator[list[bytes]]:
        """A helper that says the same to everybody; yields what it is asked."""
        asked: list[bytes] = []
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / f"{client.name_for(self.identity())}.sock"))
            server.listen()
            server.settimeout(0.02)
            over = threading.Event()

            def answer() -> None:
                while not over.is_set():
                    try:
                        peer, _ = server.accept()
                    except TimeoutError:
                        continue
                    with peer:
                        asked.append(peer.recv(65_536))
                        peer.sendall(said)

            thread = threading.Thread(target=answer)
            thread.start()
            try:
                yield asked
            finally:
                over.set()
                thread.join()

    def identity(self) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "__file__", str(self.client))
            return client.identity()


@pytest.fixture
def hooked() -> Iterator[Hooked]:
    """Not in the folder of the test: its path may be longer than that of a socket may be, and then
    a hook rightly looks for its helper elsewhere."""
    short = "/tmp"  # noqa: S108 - the folder in it is ours alone
    with TemporaryDirectory(prefix="hook-", dir=short, ignore_cleanup_errors=True) as place:
        made = Hooked(Path(place).resolve())
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
    calls = Loop(Place(hooked.home)).book.calls("s1")
    assert [bool(each.checkpoint) for each in calls] == [True, True, True]


@pytest.mark.parametrize("way", WAYS)
def test_a_helper_that_dies_in_the_middle_of_an_answer_costs_nothing(
    way: str, hooked: Hooked
) -> None:
    hooked.folder.mkdir(mode=0o700)
    with hooked.answering(hooked.folder, b"0 500 0\n{") as asked:
        done = hooked.run(way)
    assert len(asked) == 1
    assert (done.returncode, done.stdout) == (0, b"")
    assert hooked.seen() == 1


@pytest.mark.skipif(not PERL, reason="no Perl")
@pytest.mark.parametrize("end", ["kill -9 $$", "exit 120"])
@pytest.mark.parametrize(("closed", "code"), [("open", 1), ("closed", 2)])
def test_a_python_that_dies_in_the_place_of_the_helper_is_no_yes(
    end: str, closed: str, code: int, hooked: Hooked
) -> None:
    python = hooked.home.parent / "python"
    python.write_text(f"#!/bin/sh\n{end}\n")
    python.chmod(0o755)
    hooked.folder.mkdir(mode=0o700)
    with hooked.answering(hooked.folder, b"0 500 0\n{"):
        done = hooked.run("perl", closed=closed, behind=str(python))
    assert done.returncode == (120 if (end, closed) == ("exit 120", "open") else code)
    assert done.stdout == b""


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
    calls = Loop(Place(hooked.home)).book.calls("s1")
    # One that was killed after it had written everything is asked again: twice is fine, never less.
    assert {each.call for each in calls} == {f"c{number + 1}" for number in range(12)}
    assert all(each.checkpoint for each in calls)


# --- A helper that says nothing -------------------------------------------------------------------


@pytest.mark.parametrize("way", ONE_WAY)
def test_a_stopped_helper_goes_on_and_answers(way: str, hooked: Hooked) -> None:
    hooked.run()
    process = hooked.wait_for_helper()
    os.kill(process, signal.SIGSTOP)
    started = time.monotonic()
    done = hooked.run(way, behind=NOTHING)  # nobody but the helper can answer
    assert (done.returncode, done.stderr) == (0, b"")
    assert time.monotonic() - started < 20
    assert hooked.seen() == 2


@pytest.mark.parametrize("way", ONE_WAY)
def test_a_helper_that_gives_no_sign_is_not_waited_for(way: str, hooked: Hooked) -> None:
    """One that cannot be woken. What it finds when it comes back is not asked any more."""
    hooked.folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(hooked.folder / f"{client.name_for(hooked.identity())}.sock"))
        server.listen()
        started = time.monotonic()
        done = hooked.run(way)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert 1.9 < time.monotonic() - started < 20
        assert hooked.seen() == 1
        helper = Helper(hooked.folder)
        peer, _ = server.accept()
        with peer:
            helper._begin(peer)
            until = time.monotonic() + 20
            while helper._busy and time.monotonic() < until:
                time.sleep(0.01)
    assert not helper._busy
    assert hooked.seen() == 1


@pytest.mark.parametrize("way", ONE_WAY)
def test_a_helper_that_works_for_long_gives_signs_and_is_waited_for(
    way: str, hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(peer: socket.socket) -> Reply:
        peer.recv(65_536)
        time.sleep(2.6)
        return Reply(out="late")

    hooked.folder.mkdir(mode=0o700)
    helper = Helper(hooked.folder)
    monkeypatch.setattr(helper, "_answer", answer)
    thread = threading.Thread(target=helper.run)
    thread.start()
    hooked.wait_for_helper()
    done = hooked.run(way, behind=NOTHING)
    next(hooked.folder.glob("*.sock")).unlink()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"late", b"")
    thread.join(timeout=20)
    assert not thread.is_alive()


def without_helper(hooked: Hooked) -> None:
    (hooked.home / "operations").mkdir(parents=True, exist_ok=True)
    (hooked.home / "config.toml").write_text("[hooks]\nhelper=false\n")


#: A user that is not the one of the tests.
STRANGER = os.getuid() + 4242
NEEDS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["entered", "link", pytest.param("theirs", marks=NEEDS_ROOT)])
def test_a_folder_that_is_not_private_is_not_used(
    way: str, case: str, hooked: Hooked, capsys: pytest.CaptureFixture[str]
) -> None:
    without_helper(hooked)
    real = hooked.runtime / "r" if case == "link" else hooked.folder
    real.mkdir(mode=0o700)
    if case == "entered":
        real.chmod(0o755)
    elif case == "link":
        hooked.folder.symlink_to(real)
    else:
        os.chown(real, STRANGER, -1)
    with hooked.answering(real, b"0 2 0\nhi") as asked:
        done = hooked.run(way)
    assert (done.returncode, done.stdout, asked) == (0, b"", [])
    assert hooked.seen() == 1
    before = os.umask(0o077)
    try:
        assert run(str(hooked.folder)) == 2
    finally:
        os.umask(before)
    assert "is not a private folder" in capsys.readouterr().err


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "case", ["missing", "file", "open", "long", pytest.param("theirs", marks=NEEDS_ROOT)]
)
def test_the_folder_of_a_session_that_is_not_ours(way: str, case: str, hooked: Hooked) -> None:
    """As `su` and containers pass it on."""
    hooked.install_another()
    other = hooked.home.parent / "t"
    hooked.rewrite("client.py", '_TEMPORARY = "/tmp"', f'_TEMPORARY = "{other}"')
    hooked.rewrite("client.pl", '"/tmp/holdfast-', f'"{other}/holdfast-')
    given = hooked.home.parent / ("x" * 80 if case == "long" else "given")
    if case == "file":
        given.touch()
    elif case != "missing":
        given.mkdir(mode=0o700)
    if case == "open":
        given.chmod(0o777)
    elif case == "theirs":
        os.chown(given, STRANGER, -1)
    folder = other / f"holdfast-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True)
    with hooked.answering(folder, b"0 2 0\nhi") as asked:
        done = hooked.run(way, environ={"XDG_RUNTIME_DIR": str(given)}, behind=NOTHING)
    assert (done.returncode, done.stdout, len(asked)) == (0, b"hi", 1)


def test_a_helper_comes_where_the_folder_of_the_session_is_missing(hooked: Hooked) -> None:
    hooked.install_another()
    other = hooked.home.parent / "t"
    other.mkdir()
    hooked.rewrite("client.py", '_TEMPORARY = "/tmp"', f'_TEMPORARY = "{other}"')
    hooked.folder = other / f"holdfast-{os.getuid()}"
    try:
        done = hooked.run(environ={"XDG_RUNTIME_DIR": str(hooked.runtime / "gone")}, umask=0)
        assert done.returncode == 0
        process = hooked.wait_for_helper()
        assert "Umask:\t0077" in Path(f"/proc/{process}/status").read_text()
        modes = [path.stat().st_mode & 0o777 for path in (hooked.folder, *hooked.folder.iterdir())]
        assert modes == [0o700, 0o600, 0o600]
    finally:
        refuse_helpers(hooked.folder)


# --- Whose helper ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("user", ["", "/home/my user", "/home/\u00fc\udcff"])
def test_both_clients_look_for_the_same_helper(
    way: str, user: str, hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(posix.environ, b"HOME", os.fsencode(user))
    hooked.folder.mkdir(mode=0o700)
    with hooked.answering(hooked.folder, b"0 2 0\nhi") as asked:
        done = hooked.run(way, environ={"HOME": user}, behind=NOTHING)
    assert done.stdout == b"hi"
    who = client.identity()
    assert asked[0].startswith(b"holdfast2 claude-code open %d " % len(who))
    assert asked[0].partition(b"\n")[2].startswith(who + os.fsencode(hooked.home))


@pytest.mark.parametrize("way", WAYS)
def test_only_a_helper_of_its_own_code_answers_a_client(way: str, hooked: Hooked) -> None:
    hooked.run()
    hooked.wait_for_helper()
    hooked.install_another()
    hooked.rewrite("serve.py", "the hook failed", "the other hook failed")
    assert b"the other hook failed" in hooked.run(way, raw=b"nonsense").stderr
    until = time.monotonic() + 20
    while len(list(hooked.folder.glob("*.sock"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(helpers_of(hooked.folder)) == 2
    # Another version in the same place.
    hooked.rewrite("serve.py", "the other hook failed", "the new hook failed")
    os.utime(hooked.client.parent.parent / "__init__.py", (1, 1))
    assert b"the new hook failed" in hooked.run(way, raw=b"nonsense").stderr


@pytest.mark.parametrize("way", WAYS)
def test_the_home_directory_is_that_of_the_client(way: str, hooked: Hooked) -> None:
    """A home directory is no project; whose it is, only the client knows."""
    assert hooked.run(way).stdout == b""
    hooked.wait_for_helper()
    assert b"no checkpoint" in hooked.run(way, environ={"HOME": str(hooked.project)}).stdout


def test_an_agent_with_its_home_elsewhere_is_answered_alike(hooked: Hooked) -> None:
    """The variables that name the homes of agents never reach the helper. Nor does it need them: a
    hook says by its whole path what is to be read, and no variable outranks the configuration."""
    elsewhere = hooked.home.parent / "agents"
    transcript = elsewhere / "claude" / "projects" / "p" / "s2.jsonl"
    transcript.parent.mkdir(parents=True)
    usage = {"input_tokens": 900, "output_tokens": 0}
    message = {"role": "assistant", "id": "m", "model": "x", "usage": usage, "content": []}
    line = {"type": "assistant", "timestamp": "2026-01-01T00:00:00Z", "message": message}
    transcript.write_text(json.dumps(line) + "\n")
    hooked.home.mkdir()
    (hooked.home / "config.toml").write_text("[guard.source.claude-code]\nmax_tokens = 500\n")
    given = {
        "CLAUDE_CONFIG_DIR": str(elsewhere / "claude"),
        "CODEX_HOME": str(elsewhere / "codex"),
        "XDG_DATA_HOME": str(elsewhere / "data"),
        "HOLDFAST_GUARD_MAX_TOKENS": "0",
    }
    said = {
        "session_id": "s2",
        "cwd": str(hooked.project),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "make"},
        "transcript_path": str(transcript),
    }
    raw = json.dumps(said).encode()
    alone = hooked.run(raw=raw, environ=given)
    process = hooked.wait_for_helper()
    assert b"CLAUDE_CONFIG_DIR" not in Path(f"/proc/{process}/environ").read_bytes()
    answered = hooked.run(raw=raw, environ=given)
    assert b"900" in alone.stdout, alone
    assert b"deny" in alone.stdout
    assert (answered.returncode, answered.stdout) == (alone.returncode, alone.stdout)


def test_a_helper_looks_at_who_asks(hooked: Hooked) -> None:
    """Two may have one name."""
    hooked.folder.mkdir(mode=0o700)
    thread = threading.Thread(target=Helper(hooked.folder, idle=0.5).run)
    thread.start()
    hooked.wait_for_helper()
    who = client.identity()[:-1] + b"x"
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(next(hooked.folder.glob("*.sock"))))
        peer.sendall(b"holdfast2 claude-code open %d 1 8\n%s/nonsense" % (len(who), who))
        assert peer.makefile("rb").read().strip() == b""  # signs of life, and no answer
    thread.join(timeout=20)
    assert not thread.is_alive()


# --- Its life -------------------------------------------------------------------------------------


def test_of_helpers_started_at_once_one_stays(hooked: Hooked) -> None:
    words = [sys.executable, "-I", "-S", str(CLIENT), "helper", str(hooked.folder)]
    started = [subprocess.Popen(words) for _ in range(3)]
    until = time.monotonic() + 20
    while sum(each.poll() is None for each in started) > 1 and time.monotonic() < until:
        time.sleep(0.02)
    hooked.wait_for_helper()
    assert sorted(str(each.poll()) for each in started) == ["1", "1", "None"]
    refuse_helpers(hooked.folder)
    for each in started:
        each.wait(timeout=20)


def test_a_helper_whose_socket_was_replaced_ends_and_leaves_the_other_one(hooked: Hooked) -> None:
    hooked.folder.mkdir(mode=0o700)
    thread = threading.Thread(target=Helper(hooked.folder).run)
    thread.start()
    hooked.wait_for_helper()
    path = next(hooked.folder.glob("*.sock"))
    (hooked.folder / "new").touch()
    (hooked.folder / "new").replace(path)
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert path.is_file()


def test_a_helper_is_found_when_it_listens_and_knows_its_socket(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: a client would be refused, and another socket in its place taken for its own."""
    found: list[Path] = []
    listen = socket.socket.listen

    def listening(server: socket.socket, most: int) -> None:
        found.extend(hooked.folder.glob("*.sock"))
        listen(server, most)

    monkeypatch.setattr(socket.socket, "listen", listening)
    hooked.folder.mkdir(mode=0o700)
    helper = Helper(hooked.folder, idle=0.01)
    assert helper.run() == 0
    assert not found
    assert not [*hooked.folder.glob("*.sock"), *hooked.folder.glob("*.new")]


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
    assert not list(hooked.folder.glob("*.sock"))
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
    assert b"and the limit is" in done.stderr
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
        peer.connect(str(next(hooked.folder.glob("*.sock"))))
        thread.join(timeout=10)
    assert not thread.is_alive()
    never.set()


def test_a_hook_gives_up_before_its_agent_does() -> None:
    assert client.LIMIT < TIMEOUT
    assert f"my $limit = {client.LIMIT};" in CLIENT.with_suffix(".pl").read_text()


@pytest.mark.parametrize(
    ("way", "case", "closed", "how", "code"),
    [
        ("python", "the work", "open", "block", 2),
        pytest.param("python", "the work", "open", "allow", 1, marks=pytest.mark.deep),
        pytest.param("python", "the input", "closed", "allow", 2, marks=pytest.mark.deep),
        pytest.param("perl", "the work", "open", "block", 2, marks=pytest.mark.deep),
        pytest.param("perl", "the input", "open", "allow", 1, marks=pytest.mark.deep),
        ("perl", "the second try", "open", "block", 2),
        pytest.param("perl", "the second try", "open", "allow", 1, marks=pytest.mark.deep),
    ],
)
def test_what_takes_too_long_is_for_the_user_to_decide(
    way: str, case: str, closed: str, how: str, code: int, hooked: Hooked
) -> None:
    """An agent that waited in vain runs the tool: our own limit comes first."""
    if way == "perl" and not PERL:
        pytest.skip("no Perl")
    (hooked.home / "operations").mkdir(parents=True)
    (hooked.home / "config.toml").write_text(f"[hooks]\nhelper = false\non_failure = '{how}'\n")
    hooked.install_another()
    hooked.rewrite("client.py", "LIMIT = 100", f"LIMIT = {5 if case == 'the second try' else 1}")
    hooked.rewrite("client.pl", "$limit = 100", "$limit = 1")
    sleep = "__import__('time').sleep(30); event = parsed"
    hooked.rewrite("serve.py", "event = parsed", sleep)
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if case == "the input":
            waiting = stack.enter_context(_waiting(hooked.command(way, closed), hooked.runtime))
            _, err = waiting.communicate(timeout=20)
            returned = waiting.returncode
        else:
            if case == "the second try":
                hooked.folder.mkdir(mode=0o700)
                stack.enter_context(hooked.answering(hooked.folder, b"0 9 0\ncut"))
            done = hooked.run(way, closed=closed)
            returned, err = done.returncode, done.stderr
    assert (returned, err) == (code, b"Holdfast: the hook failed: no answer in 1 seconds\n")
    assert time.monotonic() - started < 15


@contextmanager
def _waiting(words: list[str], runtime: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A hook whose agent does not end its input."""
    ours, theirs = os.pipe()
    env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "HOME": USER_HOME}
    with subprocess.Popen(words, stdin=ours, stderr=subprocess.PIPE, env=env) as process:
        os.close(ours)
        try:
            yield process
        finally:
            os.close(theirs)


@pytest.mark.skipif(not NODE, reason="no Node.js")
@pytest.mark.parametrize("said", ['{"notice": "it is so"}', ""])
def test_the_plugin_of_opencode_shows_notices(said: str, tmp_path: Path) -> None:
    code = f"process.stdin.resume(); process.stdout.write({said!r}); process.exit({int(not said)})"
    text = (CLIENT.parents[1] / "connect" / "opencode_plugin.js").read_text()
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


@pytest.mark.skipif(not NODE, reason="no Node.js")
@pytest.mark.parametrize("word", ["run", "project"])
@pytest.mark.parametrize("event", ["tool.execute.before", "chat.message"])
def test_the_plugin_of_opencode_says_why_it_stops(event: str, word: str, tmp_path: Path) -> None:
    """On the screen if there is one, else as text: nobody sees what is thrown."""
    said = '{"verdict": "stop", "reason": "it is used up"}'
    code = f"process.stdin.resume(); process.stdout.write({said!r}); process.exit(0)"
    text = (CLIENT.parents[1] / "connect" / "opencode_plugin.js").read_text()
    text = text.replace("/*COMMAND*/ []", json.dumps([NODE, "-e", code]))
    (tmp_path / "plugin.mjs").write_text(text)
    (tmp_path / "main.mjs").write_text(
        f"""
        import {{ Holdfast }} from "./plugin.mjs"
        const client = {{
          tui: {{ showToast: async ({{ body }}) => console.log("toast", body.message) }},
          app: {{ log: async ({{ body }}) => console.log("log", body.message) }},
          session: {{ abort: async () => console.log("abort") }},
        }}
        const hooks = await Holdfast({{ client, directory: "/" }})
        const call = hooks["{event}"]({{ tool: "bash", sessionID: "s" }}, {{ args: {{}} }})
        await call.catch((error) => console.log("thrown", error.message))
        """
    )
    words = [str(NODE), str(tmp_path / "main.mjs"), "--log-level=INFO", word]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == [
        "abort",
        "log it is used up",
        "thrown it is used up",
        "toast it is used up",
    ]
    assert done.stderr.strip() == ("it is used up" if word == "run" else "")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[hooks]\nhelper=false\n", False),
        ("[hooks]\nhelper     =\tfalse\n", False),
        ('[hooks]\n"helper" = false # no\n', False),
        ("hooks = { helper = false }\n", False),
        ("hooks.helper = false\n", False),
        ("[hooks]\n# helper = false\nhelper = true\n", True),
        ("[hooks]\nhelper = \n", True),
        ("[other]\nhelper = false\n", True),
    ],
)
def test_what_the_configuration_says_about_a_helper(
    text: str, wanted: bool, hooked: Hooked
) -> None:
    hooked.home.mkdir()
    (hooked.home / "config.toml").write_text(text)
    assert client._wants_helper(str(hooked.home)) is wanted


@pytest.mark.parametrize("way", WAYS)
def test_a_helper_can_be_turned_off(way: str, hooked: Hooked) -> None:
    hooked.run()
    process = hooked.wait_for_helper()  # for another home, it goes on
    without_helper(hooked)
    done = hooked.run(way, behind=NOTHING)
    assert b"cannot be started" in done.stderr if way == "perl" else done.returncode == 0
    assert helper_of(hooked.folder) == process
    assert end_helper(hooked.folder)
    assert hooked.run(way).returncode == 0
    time.sleep(0.3)
    assert helper_of(hooked.folder) is None


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
