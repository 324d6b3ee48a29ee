"""Children of the server: they ask the homes, hand over what they found, and are gone."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, UnknownSessionError
from holdfast.web import child_process
from holdfast.web.child_process import Children, Link, undisturbed
from holdfast.web.jobs import Done, Jobs, Run
from tests.cli.agents import settle
from tests.cli.machine import Machine
from tests.cli.session_bench import fill
from tests.web.client import Web
from tests.web.forms import hidden

pytestmark = pytest.mark.skipif(not child_process.FORKS, reason="works in threads here")


def _fails(_: Link) -> None:
    raise UnknownSessionError("It is gone.", hint="`holdfast log` lists them.")


def test_an_answer_an_error_and_a_bug_come_back_as_what_they_are() -> None:
    children = Children()
    assert children.read(lambda _: os.getpid()) != os.getpid()
    with pytest.raises(UnknownSessionError, match=r"It is gone\."):
        children.read(_fails)
    with pytest.raises(HoldfastError, match="Internal error: ZeroDivisionError") as caught:
        children.read(lambda _: 1 // 0)
    assert "Please report it" in (caught.value.hint or "")


def test_a_child_that_is_killed_is_told_and_nobody_waits_for_it() -> None:
    with pytest.raises(HoldfastError, match=r"ended early \(by signal 9\)"):
        Children().read(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def test_it_has_no_socket_of_the_server_and_keeps_only_the_file_it_may_write(
    tmp_path: Path,
) -> None:
    """Or a port would be taken, and a connection open, for as long as it works."""
    nothing = Path(os.devnull).stat().st_rdev
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "out").open("wb") as file:
        kept, number = file.fileno(), server.fileno()

        def look(_: Link) -> bool:
            os.write(kept, b"said")
            return os.fstat(number).st_rdev == nothing

        assert Children().read(look, keeps=kept)
    assert (tmp_path / "out").read_bytes() == b"said"


def test_no_copy_is_made_while_the_server_reads_its_own_file() -> None:
    began = threading.Event()

    def read() -> None:
        began.set()
        Children().read(lambda _: None)

    with undisturbed():
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        assert began.wait(10)
        thread.join(0.05)
        assert thread.is_alive()
    thread.join(30)
    assert not thread.is_alive()


def test_what_one_imported_the_next_one_finds() -> None:
    name = "holdfast.stores.checkpoints.older_layout"
    sys.modules.pop(name, None)

    def load(_: Link) -> None:
        __import__(name)

    Children().read(load)
    assert name in sys.modules


def test_a_run_tells_how_far_it_is_and_stops_when_it_is_asked_to() -> None:
    def run(job: Run) -> list[Done]:
        for number in range(10_000):
            job.step("waiting", number, 10_000)
            if job.stop_requested():
                raise HoldfastError(f"stopped after {number > 0}")
            time.sleep(0.01)
        return []

    job = Jobs().start("Wait", run, back="/")
    for _ in range(1000):
        if job.done:
            break
        time.sleep(0.01)
    assert (job.label, job.total) == ("waiting", 10_000)
    job.stopping = True
    assert job.wait(30)
    assert job.error is not None
    assert job.error.message == "stopped after True"


def test_a_run_hears_that_its_server_was_killed(tmp_path: Path) -> None:
    """What it was doing is ended between two batches, as after a stop."""
    noted = tmp_path / "noted"

    def far(link: Link) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        while not link.wants_end():
            time.sleep(0.01)
        link.say("nobody hears this")
        noted.write_text("stopped")

    server = os.fork()
    if server == 0:
        Children().change(far, lambda _: None, lambda: False)
        os._exit(1)
    os.waitpid(server, 0)
    for _ in range(1000):
        if noted.exists():
            break
        time.sleep(0.01)
    assert noted.read_text() == "stopped"


def test_a_server_that_ends_takes_its_readers_with_it() -> None:
    children = Children()
    begun = threading.Event()
    ended: list[str] = []

    def wait(link: Link) -> None:
        link.say("here")
        time.sleep(60)

    def read() -> None:
        try:
            children.read(wait, heard=lambda _: begun.set())
        except HoldfastError as error:
            ended.append(error.message)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert begun.wait(30)
    children.close()
    thread.join(30)
    assert ended == ["The process that did this ended early (by signal 15)."]


def test_the_page_lists_reads_finds_deletes_and_undoes_through_children(machine: Machine) -> None:
    fill(machine.home)
    settle(machine, "claude-code")
    with Web(machine, forks=True) as web:
        assert "Disk clean-up" in web.ok("/sessions").words
        assert "Disk clean-up" in web.ok("/sessions?sort=messages").words
        chosen = "holdfast:20260101_090000_aaaaaa"
        assert web.ok(f"/sessions/holdfast/read?id={chosen.partition(':')[2]}").status == 200
        assert "disk" in web.ok("/sessions/results?q=disk").text
        exported = web.ok("/sessions/holdfast/export?id=20260101_090000_aaaaaa&form=jsonl")
        assert exported.text.startswith("{")
        asked = web.post("/sessions/delete", {"s": chosen})
        done = web.post("/sessions/delete", hidden(asked))
        assert done.status == 303, done
        report = web.ok(done.place)
        assert "1 removed" in report.words
        assert chosen not in web.ok("/sessions").text
        undone = web.post(f"/log/holdfast/{_operation(report.text)}/undo")
        assert undone.status == 303, undone
        assert chosen in web.ok("/sessions").text


def _operation(text: str) -> str:
    return text.partition("/log/holdfast/")[2].partition("/")[0]
