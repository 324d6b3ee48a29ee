"""An archive on an object store whose server, or whose client, is killed at any request."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import ArchiveOptions
from holdfast.model.session import SessionFilter
from holdfast.spine.settle import settle_if_needed
from holdfast.stores.blobs import object_store
from tests import tally
from tests.archiving import (
    STAMPED,
    a_stored_session,
    archive,
    bring,
    clock,
    everything,
    files,
    fill,
    folder_of,
    opened,
    with_files,
)
from tests.crash.objects_worker import ALL
from tests.object_servers import (
    CREDENTIALS,
    HASTY,
    FaultProxy,
    Rclone,
    an_address,
    proxied,
    rclone,
    times,
)

ROOT = Path(__file__).parents[2]
STEPS = ("archive", "restore", "undo")
#: Every so many requests in `make test`; each of them in `make test-deep`.
FEW = 7


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_store, "Patience", lambda: HASTY)


def a_home(root: Path, place: ArchiveOptions, step: str) -> tuple[object, object]:
    """A home before this step. Returns what is in it once nothing is archived."""
    root.mkdir()
    home = opened(root, place)
    fill(home, messages=1)
    a_stored_session(home)
    with_files(home, STAMPED)
    original = everything(home), files(home)
    if step != "archive":
        archive(home, *ALL)
    home.close()
    return original


def check_whole(home: HoldfastHome, original: tuple[object, object]) -> None:
    """Each session is in one place, and all of them come back."""
    settle_if_needed(home, clock=clock)
    in_archive = [each.session.id for each in home.archive.find(SessionFilter())]
    stored = list(everything(home))
    assert sorted((*stored, *in_archive)) == sorted(("root", *ALL))
    assert not home.archive.problems()
    folder_of(home).heal()
    names = {blob.name for blob in folder_of(home).blobs.names(own_folder(home))}
    assert len(names) == len(in_archive)
    bring(home)
    assert (everything(home), files(home)) == original
    home.close()
    tally.verified()


def own_folder(home: HoldfastHome) -> str:
    return next(iter(folder_of(home)._homes.own()), "homes-that-never-wrote")


def a_worker(step: str, root: Path, place: ArchiveOptions) -> subprocess.Popen[bytes]:
    # One word more before the arguments, as in `child`.
    command = ["-u", "-m", "tests.crash.objects_worker", "-", step, str(root)]
    return subprocess.Popen(
        [sys.executable, *command, place.url, place.endpoint],
        cwd=ROOT,
        env=os.environ | CREDENTIALS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class KillsClient:
    """Kills the process that asks, at one request: before the server sees it, or afterwards."""

    def __init__(self, number: int, how: str) -> None:
        self.left = number
        self.how = how
        self.victim: subprocess.Popen[bytes] | None = None
        self.killed = False

    def __call__(self, _method: str, _path: str) -> str | None:
        self.left -= 1
        if self.left or self.victim is None:
            return None
        self.killed = True
        self.victim.send_signal(signal.SIGKILL)
        return self.how


def killed_at(number: int, how: str, step: str, proxy: FaultProxy, root: Path) -> bool:
    """Whether it was killed before it was done."""
    proxy.spoil = times(0, "", "")
    address = an_address(proxy.endpoint)
    place = ArchiveOptions(url=address.url, endpoint=proxy.endpoint)
    original = a_home(root, place, step)
    killing = KillsClient(number, how)
    killing.victim = a_worker(step, root, place)
    proxy.spoil = killing
    killing.victim.wait()
    proxy.spoil = times(0, "", "")
    if killing.killed:
        tally.injected()
    else:
        assert killing.victim.returncode == 0
    check_whole(opened(root, place), original)
    return killing.killed


@pytest.mark.deep
@pytest.mark.parametrize("how", ["refuse", "lose"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_request(tmp_path: Path, step: str, how: str) -> None:
    with proxied(rclone().endpoint) as proxy:
        number = 1
        while killed_at(number, how, step, proxy, tmp_path / str(number)):
            number += 1
    assert number > FEW


def test_killed_at_a_request(tmp_path: Path) -> None:
    with proxied(rclone().endpoint) as proxy:
        assert killed_at(9, "lose", "archive", proxy, tmp_path / "home")


# --- The server -----------------------------------------------------------------------------------


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Rclone]:
    server = Rclone(tmp_path / "objects")
    try:
        yield server
    finally:
        server.kill()


def ends_at(number: int, server: Rclone) -> Callable[[str, str], str | None]:
    left = [number]

    def spoil(_method: str, _path: str) -> str | None:
        left[0] -= 1
        if left[0] == 0:
            server.kill()
        return None if left[0] > 0 else "refuse"

    return spoil


@pytest.mark.parametrize(
    "step", ["archive", *(pytest.param(each, marks=pytest.mark.deep) for each in STEPS[1:])]
)
@pytest.mark.parametrize(
    "number", [12, *(pytest.param(each, marks=pytest.mark.deep) for each in range(1, 40, 3))]
)
def test_a_server_that_is_killed(
    tmp_path: Path, own_server: Rclone, step: str, number: int
) -> None:
    with proxied(own_server.endpoint) as proxy:
        place = ArchiveOptions(url=an_address("").url, endpoint=proxy.endpoint)
        root = tmp_path / "home"
        original = a_home(root, place, step)
        proxy.spoil = ends_at(number, own_server)
        a_worker(step, root, place).wait()
        tally.injected()
        if own_server.process is None:
            own_server.start()
        proxy.spoil = times(0, "", "")
        check_whole(opened(root, place), original)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
def test_a_proxy_whose_server_ends_leaves_nothing_open(answer: bytes) -> None:
    """What it leaves open would be told of whichever test runs then."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def end() -> None:
            taken, _ = server.accept()
            with taken:
                taken.recv(65_536)
                taken.sendall(answer)

        ending = threading.Thread(target=end)
        ending.start()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with proxied(f"http://127.0.0.1:{server.getsockname()[1]}") as proxy:
                client = HTTPConnection("127.0.0.1", int(proxy.endpoint.rpartition(":")[2]))
                with closing(client):
                    client.request("GET", "/")
                    with pytest.raises((HTTPException, OSError)):
                        client.getresponse()
            ending.join()
            gc.collect()
    assert not [each for each in told if each.category is ResourceWarning]


# --- Two machines ---------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("again", range(5))
def test_two_machines_at_once(tmp_path: Path, again: int) -> None:
    """Both archive the same sessions to one address at the same moment, and both undo it."""
    place = ArchiveOptions(url=an_address("").url, endpoint=rclone().endpoint)
    roots = [tmp_path / name for name in ("a", "b")]
    originals = [a_home(root, place, "archive") for root in roots]
    for step in ("archive", "undo" if again % 2 else "restore"):
        running = [a_worker(step, root, place) for root in roots]
        assert [each.wait() for each in running] == [0, 0]
    for root, original in zip(roots, originals, strict=True):
        home = opened(root, place)
        assert (everything(home), files(home)) == original
        assert not home.archive.find(SessionFilter())
        home.close()
    tally.injected()
    tally.verified()
