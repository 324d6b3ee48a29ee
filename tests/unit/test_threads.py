"""Work call other work: by several threads, or by one that is waited for later."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from holdfast.stores.threads import BackgroundCall, in_threads


def test_several_parts_are_worked_on_at_a_time_and_answers_keep_their_order() -> None:
    together = threading.Barrier(3, timeout=60)

    def work(part: int) -> int:
        together.wait()  # for ever, if one came after the other
        return part * 2

    assert in_threads(work, range(9), 3) == [0, 2, 4, 6, 8, 10, 12, 14, 16]


@pytest.mark.parametrize("hands", [1, 2, 20])
def test_any_number_of_hands_does_all_parts_once(hands: int) -> None:
    seen: list[int] = []
    in_threads(seen.append, range(7), hands)
    assert sorted(seen) == [0, 1, 2, 3, 4, 5, 6]
    assert in_threads(seen.append, [], hands) == []


def test_one_hand_needs_no_thread() -> None:
    mine = threading.get_ident()
    assert in_threads(lambda _: threading.get_ident(), range(3), 1) == [mine] * 3
    assert in_threads(lambda _: threading.get_ident(), range(1), 5) == [mine]


def test_after_an_error_nothing_is_begun_and_nothing_goes_on() -> None:
    begun: list[int] = []
    over: list[int] = []
    together = threading.Barrier(2, timeout=60)

    def work(part: int) -> None:
        begun.append(part)
        together.wait()
        if part == 0:
            raise ValueError("no")
        time.sleep(0.05)  # the other one notes that it failed
        over.append(part)

    with pytest.raises(ValueError, match="no"):
        in_threads(work, range(50), 2)
    assert (sorted(begun), over) == ([0, 1], [1])


def test_an_error_of_the_last_kind_is_not_taken_for_the_end() -> None:
    def work(part: int) -> int:
        return [0][part]

    with pytest.raises(IndexError):
        in_threads(work, range(2), 2)


def test_what_was_begun_is_waited_for_once() -> None:
    call, go, done = BackgroundCall(), threading.Event(), list[int]()

    def work() -> None:
        go.wait(60)
        done.append(1)

    assert call.end() is False
    call.begin(work)
    assert done == []
    go.set()
    assert call.end() is True
    assert (done, call.end()) == ([1], False)


def test_what_it_raised_is_raised_where_it_is_waited_for() -> None:
    call = BackgroundCall()

    def fail() -> None:
        raise OSError("no")

    call.begin(fail)
    with pytest.raises(OSError, match="no"):
        call.end()
    assert call.end() is False  # and said once


def test_it_loads_neither_logging_nor_futures() -> None:
    asked = "import sys, holdfast.stores.threads; print({'logging', 'concurrent'} & {*sys.modules})"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True)
    assert said.stdout.strip() == "set()"


_INTERRUPTED = """
import os, signal, threading, time
from holdfast.stores.threads import BackgroundCall, in_threads

done = []

def work(part=0):
    if part == 0:
        started.set()
        time.sleep(1.0)
        done.append(part)

def interrupt():
    started.wait()
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)

for wait in ("call", "parts"):
    started = threading.Event()
    done.clear()
    threading.Thread(target=interrupt).start()
    call = BackgroundCall()
    try:
        if wait == "call":
            call.begin(work)
            call.wait()
        else:
            in_threads(work, range(4), 2)
        print("not interrupted")
    except KeyboardInterrupt:
        call.wait()
        print(wait, done)
"""


def test_what_was_begun_has_ended_after_ctrl_c_too() -> None:
    """Otherwise it goes on without the lock of the home."""
    said = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED], capture_output=True, check=True, text=True
    )
    assert said.stdout.splitlines() == ["call [0]", "parts [0]"]


def test_without_a_thread_to_be_had_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert in_threads(lambda part: part + 1, range(3), 2) == [1, 2, 3]
        call = BackgroundCall()
        with pytest.raises(RuntimeError):
            call.begin(lambda: None)
    assert call.end() is False
    call.begin(lambda: None)
    assert call.end() is True


def test_a_forked_child_waits_for_no_thread_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    call, go = BackgroundCall(), threading.Event()
    call.begin(lambda: go.wait(60))
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        call.wait()
    go.set()
    assert call.end() is True
