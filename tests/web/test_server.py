"""`holdfast web` as a process: it starts, says where it is, and ends with Ctrl-C."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import holdfast.web
from holdfast.errors import UsageError
from holdfast.web import server
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.runner import environment

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - for a moment


@contextmanager
def _started(machine: Machine, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "holdfast", "web", "--no-open", "--port", "0", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment(machine.user), stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None
        line = next(each for each in process.stdout if "http://" in each)
        try:
            yield process, line.strip()
        finally:
            if process.poll() is None:
                process.kill()


def _asked(address: str, path: str) -> int:
    connection = http.client.HTTPConnection(address.split("/")[2], timeout=30)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_it_answers_until_ctrl_c_and_ends_quietly(machine: Machine) -> None:
    with _started(machine) as (process, link):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{40,}", link)
        assert _asked(link, "/") == 401
        assert _asked(link, "/" + link.rpartition("/")[2]) == 303
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_another_address_is_told_what_that_means(machine: Machine) -> None:
    with _started(machine, "--host", _EVERYWHERE) as (process, link):
        assert socket.gethostname() in link
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "other machines can reach this page" in process.stderr.read()


def test_a_port_that_is_taken_is_named_and_the_usual_one_has_a_next() -> None:
    with server.listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Another program is listening on port {port}"):
            server.listening("127.0.0.1", port)
    with server.listening("127.0.0.1", None) as one, server.listening("127.0.0.1", None) as two:
        assert one.getsockname()[1] != two.getsockname()[1]
    with pytest.raises(UsageError, match="Cannot listen on"):
        server.listening("192.0.2.1", 0)
    with pytest.raises(UsageError, match="Cannot listen on"):
        server.listening("no such host", 0)


def test_a_missing_package_is_named_with_how_to_install_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.web.server", raising=False)
    monkeypatch.delattr(holdfast.web, "server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = Inside(machine).run("web", "--no-open")
    assert said.code == 2
    assert "`holdfast web` needs the package uvicorn, which isn't installed" in said.err
    assert "pip install" in said.err
    assert "holdfast[" not in said.err


def test_one_home_is_chosen_on_the_page(machine: Machine) -> None:
    said = Inside(machine).run("web", "--home", "codex")
    assert said.code == 2
    assert "shows every home" in said.err


def test_threads_end_with_the_site(machine: Machine) -> None:
    import threading

    from tests.web.client import Web

    before = threading.active_count()
    with Web(machine) as web:
        web.ok("/sessions")
        assert threading.active_count() > before
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
