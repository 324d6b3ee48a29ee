"""Whether the holder of a lease lives, asked where that is hard to see.

Real processes, real namespaces, real mounts of /proc. Whoever cannot be seen is alive; whoever is
gone is dead only for those who count processes as he did.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from holdfast.model.session import Session
from holdfast.model.stored_session import Holder
from holdfast.stores import processes
from holdfast.stores.sqlite.sessions import SqliteSessionStore

OTHER = 23_456
NOT_DUMPABLE = "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="NOT TRIED: namespaces, mounts of /proc and other users need Linux and root",
)


def in_mount(options: str) -> str:
    """A shell line that runs what follows with another /proc."""
    return f'mount -t proc {options} proc /proc && exec "$@"'


@dataclass(frozen=True)
class Place:
    """Where somebody looks from. `sees` says whether a death can be proved there, `reuse` whether
    a number that is in use again can be told."""

    unshare: tuple[str, ...] = ()
    shell: str = 'exec "$@"'
    weak: bool = False
    sees: bool = True
    reuse: bool = False

    def command(self, code: str, *arguments: object) -> list[str]:
        before = unshared(*self.unshare, shell=self.shell)
        weaken = [sys.executable, "-c", _WEAKEN] if self.weak else []
        return [*before, *weaken, sys.executable, "-c", code, *map(str, arguments)]


#: Without the right to trace all others and to send them signals, like anybody who is not root;
#: still root by name, because others may not be able to read the interpreter.
_WEAKEN = """
import ctypes, os, sys
os.setgroups([]); os.setgid(45_678)  # hidepid does not hold for the group of root
for right in (5, 19):
    assert ctypes.CDLL(None).prctl(24, right, 0, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
HIDING = in_mount("-o hidepid=2")
PLACES = {
    "here": Place(reuse=True),
    "without rights": Place(weak=True, reuse=True),
    "in another time": Place(("--time", "--boottime", "100000")),
    "behind hidepid": Place(("--mount",), HIDING, weak=True),
    "behind hidepid, seeing through": Place(("--mount",), HIDING, reuse=True),
    "with no more of /proc than processes": Place(("--mount",), in_mount("-o subset=pid")),
    "without /proc": Place(("--mount",), 'mount -t tmpfs none /proc && exec "$@"', sees=False),
    "in a container": Place(("--mount", "--pid"), in_mount(""), sees=False),
    "in a container with the /proc around it": Place(("--pid",), sees=False),
}

_HOLD = """
import ctypes, json, os, sys
from dataclasses import asdict
from holdfast.stores.processes import this_process
user, then = int(sys.argv[1]), sys.argv[2]
import encodings.ascii  # it cannot be loaded any more as another user
if user:
    os.setgroups([]); os.setgid(user); os.setuid(user)
exec(then)
print(json.dumps(asdict(this_process())), flush=True)
sys.stdin.read()
"""
_JUDGE = """
import json, os, sys
from dataclasses import asdict
from holdfast.model.stored_session import Holder
from holdfast.stores.processes import is_dead, this_process
judged = {name: is_dead(Holder(**each)) for name, each in json.load(sys.stdin).items()}
print(json.dumps({"judged": judged, "me": asdict(this_process())}))
"""


def unshared(*flags: str, shell: str = 'exec "$@"') -> list[str]:
    """How to run something in other namespaces; a kernel that refuses them is not tried."""
    if not flags:
        return []
    words = ["unshare", *flags, "--fork"]
    probe = subprocess.run([*words, "true"], check=False, capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"NOT TRIED: this kernel refuses {' '.join(words)}: {probe.stderr.strip()}")
    return [*words, "sh", "-c", shell, "sh"]


@contextmanager
def a_holder(
    user: int = 0, then: str = "", unshare: tuple[str, ...] = ()
) -> Iterator[tuple[Holder, Callable[[], None]]]:
    """A process that says who it is and waits; and how to let it end."""
    with subprocess.Popen(
        [*unshared(*unshare), sys.executable, "-c", _HOLD, str(user), then],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        holder = Holder(**json.loads(process.stdout.readline()))

        def end() -> None:
            process.communicate()
            assert process.returncode == 0

        yield holder, end
        if process.poll() is None:
            end()


def judged(place: Place, holders: dict[str, Holder]) -> dict[str, bool]:
    """Who of them is dead, as seen from a place. A process there has a name of its own too."""
    done = subprocess.run(
        place.command(_JUDGE),
        input=json.dumps({name: asdict(each) for name, each in holders.items()}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    verdicts: dict[str, bool] = answer["judged"]
    return verdicts


def aged(holder: Holder) -> Holder:
    """The same lease as older versions wrote it: they did not say in whose time they counted."""
    return replace(holder, started=holder.started.partition("@")[0])


@pytest.mark.parametrize("place", PLACES)
def test_the_living_are_never_taken_for_dead_and_the_dead_only_by_proof(place: str) -> None:
    seen_from = PLACES[place]
    with ExitStack() as stack:
        made = {
            "of the same user": a_holder(),
            "of another user": a_holder(OTHER),
            "that hides": a_holder(0, NOT_DUMPABLE),
            "of another user, that hides": a_holder(OTHER, NOT_DUMPABLE),
            "in another time": a_holder(unshare=("--time", "--boottime", "5000000")),
        }
        started = {name: stack.enter_context(each) for name, each in made.items()}
        holders = {name: holder for name, (holder, _) in started.items()}
        holders |= {f"{name}, older": aged(each) for name, each in holders.items()}
        assert not any(judged(seen_from, holders).values())
        for _, end in started.values():
            end()
        verdicts = judged(seen_from, holders)
        assert set(verdicts.values()) == {seen_from.sees}


@pytest.mark.parametrize("place", PLACES)
def test_a_number_that_is_in_use_again_is_told_only_where_times_can_be_compared(
    place: str,
) -> None:
    seen_from = PLACES[place]
    with a_holder(OTHER) as (holder, _):
        ticks, _, time_space = holder.started.partition("@")
        earlier = replace(holder, started=f"{int(ticks) - 500}@{time_space}")
        assert judged(seen_from, {"gone": earlier}) == {"gone": seen_from.reuse}


def test_another_start_of_the_machine_is_a_proof_only_if_the_machine_is_known() -> None:
    here = processes.this_process()
    assert processes.is_dead(replace(here, boot="another"))
    name, *_, numbers = here.host.split("/")
    assert not processes.is_dead(replace(here, boot="another", host=f"{name}/{numbers}"))
    assert not processes.is_dead(replace(here, boot=""))


_MAINTAIN = """
import json, sys, holdfast
result = holdfast.maintain(sys.argv[1], force=True)
print(json.dumps([result.errors, result.ended]))
"""


@pytest.mark.parametrize("place", ["in another time", "behind hidepid"])
def test_maintenance_from_there_ends_nothing_that_lives(tmp_path: Path, place: str) -> None:
    """The whole way: an agent that is idle for two days, and a run that cannot see it."""
    long_ago = time.time() - 2 * 86_400
    with a_holder(OTHER, NOT_DUMPABLE) as (holder, end):
        with closing(SqliteSessionStore(tmp_path / "sessions.db")) as store:
            store.create(
                Session(id="idle", source="cli", started_at=long_ago, last_active_at=long_ago)
            )
            store.hold("idle", holder, now=long_ago)
        assert _maintained(PLACES[place], tmp_path) == 0
        end()
        assert _maintained(PLACES[place], tmp_path) == 1


def _maintained(place: Place, home: Path) -> int:
    """How many sessions a run from this place ended."""
    command = place.command(_MAINTAIN, home)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors, ended = json.loads(done.stdout)
    assert errors == []
    return int(ended)


_PROBE = """
import os, sys
from holdfast.stores import open_files, processes
fd = os.open(sys.argv[1], os.O_RDONLY)
print(processes.hides_some(), open_files._listed(fd))
"""


@pytest.mark.parametrize(
    ("place", "hides"),
    [("here", False), ("behind hidepid", True), ("behind hidepid, seeing through", False)],
)
def test_where_processes_are_hidden_a_file_may_be_open(
    tmp_path: Path, place: str, *, hides: bool
) -> None:
    """Where the kernel cannot be asked, a list of processes that leaves some out proves nothing."""
    path = tmp_path / "file"
    path.write_text("x")
    done = subprocess.run(
        PLACES[place].command(_PROBE, path), capture_output=True, text=True, check=True
    )
    hiding, _, found = done.stdout.strip().partition(" ")
    assert hiding == str(hides)
    assert not hides or found != "None"
