"""The look at everything after the chaos: what was promised is kept, whole, once, and bounded."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import CannotUndoError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.session import SessionFilter
from holdfast.policy.planner import plan
from holdfast.policy.rules import Caps, CheckpointPolicy, Limits, Policy
from holdfast.services.apply_until_within_caps import bound_checkpoints
from holdfast.services.doctor import examine
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.settle import settle_if_needed
from holdfast.spine.undo import undo
from holdfast.stores.checkpoints.reclaim import reclaim
from tests import tally
from tests.checkpointing import contents, file_bytes, fsck, on_disk
from tests.crash.chaos_receipts import Receipts, receipts
from tests.crash.chaos_sessions import checked, opened
from tests.crash.checkpoint_worker import state, store_of
from tests.crash.side_log import Line, everything_told
from tests.stored import check_whole

MOST_SESSIONS = 5
MOST_CHECKPOINT_BYTES = 150_000


def check_everything(root: Path) -> dict[str, int]:
    """How much was promised and looked at."""
    home, lines = opened(root), everything_told(root)
    settle_if_needed(home, clock=time.time)
    check_log(home)
    living = check_the_living(home, lines)
    check_checkpoints(root, home, lines)
    bring_everything_back(home)
    check_sessions(root, home, lines, receipts(home.root))
    check_bounds(home)
    check_log(home)
    counts = Counter(line.verb for line in lines)
    tally.verified()
    return {"living": living, **counts}


def check_log(home: HoldfastHome) -> None:
    view = home.log.read()
    assert not view.problems
    assert all(each.finished_at is not None for each in view.operations), "left open"
    found = examine(home, progress=Silent())
    assert found.ok, [each for each in found.findings if each.message]


def check_the_living(home: HoldfastHome, lines: Sequence[Line]) -> int:
    """A session that was open when its holder was killed is where it was, and open."""
    last: dict[str, str] = {}
    for line in lines:
        if line.verb in ("opening", "opened", "ending", "ended"):
            last[line.words[0]] = line.verb
    store = home.create_session_store()
    living = [session for session, verb in last.items() if verb == "opened"]
    for session in living:
        assert not store.get(session).ended, f"{session} was ended, and nobody asked"
    return len(living)


def bring_everything_back(home: HoldfastHome) -> None:
    """The latest first: so each finds its surroundings as they were when it went."""
    for operation in reversed(home.log.read().operations):
        if operation.in_trash and not operation.rolled_back:
            try:
                checked(undo(home, operation.id, clock=time.time)[1])
            except CannotUndoError:
                continue  # restored with an earlier one
    wanted = chosen(home.archive, ())
    checked(restore(home, wanted, command="sessions restore", clock=time.time))
    assert not home.archive.problems()


def check_sessions(root: Path, home: HoldfastHome, lines: Sequence[Line], gone: Receipts) -> None:
    """Every acknowledged message is there, once, in the store and in its transcript. A session that
    is not there has a receipt, and was judged with every message that it had."""
    said, saying = _by_session(lines, "said"), _by_session(lines, "saying")
    store = home.create_session_store()
    there = {each.id: each for each in store.find(SessionFilter())}
    for session, texts in said.items():
        if session in there:
            continue
        assert session in gone.sessions, f"{session} is gone without a receipt"
        judged = gone.left[session].last_active_at
        later = [text for text in texts if saying[session][text] > judged]
        assert not later, f"{session} went on old knowledge: {later}"
    for session, kept in there.items():
        found = [str(message.content).split(" ")[0] for message in store.messages(session)]
        assert set(said[session]) <= set(found) <= set(saying[session]), f"lost in {session}"
        assert len(found) == len(set(found)) == kept.message_count == kept.tokens.input
        assert set(said[session]) <= _transcript(root, session), f"lost in a file of {session}"
    check_whole(home.root)


def _by_session(lines: Sequence[Line], verb: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in lines:
        if line.verb == verb:
            session, text = line.words
            found[session][text] = line.at
    return found


def _transcript(root: Path, session: str) -> set[str]:
    """What stands in it. A line that a kill tore was never acknowledged."""
    path = root / "home" / "sessions" / f"{session}.jsonl"
    found = set()
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        try:
            found.add(str(json.loads(line)["content"]).split(" ")[0])
        except ValueError:
            continue
    return found


def check_checkpoints(root: Path, home: HoldfastHome, lines: Sequence[Line]) -> None:
    """Every acknowledged checkpoint is there or has a receipt; each can be restored as it was, and
    the newest of each project stayed."""
    store = store_of(root, max_snapshots=0)
    reclaim(store.layout, holder="test", thorough=True)
    found = home.checkpoint_upkeep.verify()
    assert found.ok, found.problems
    assert fsck(store.layout.store) == ""
    there = {each.id: each for each in store.list()}
    hidden = {entry.removal.item.id for entry in home.log.read().trash}
    took = [line.words for line in lines if line.verb == "took"]
    gone = receipts(home.root).checkpoints
    for workdir, taken in took:
        assert taken in there.keys() | hidden | gone, f"{taken} of {workdir} has no receipt"
    for place in {Path(workdir) for workdir, _ in took}:
        store.take(place, reason="at the end", now=time.time())
        mine = store.list(place)
        assert len(mine) > 1, "the newest went"
        for checkpoint in mine:
            safety = store.secure(checkpoint.id, now=time.time())
            store.restore(checkpoint.id, safety, now=time.time())
            held = contents(store, checkpoint)
            assert on_disk(place) == held, checkpoint
            if checkpoint.reason.isdigit():
                assert {name: data for name, (_, data) in held.items()} == state(
                    int(checkpoint.reason)
                )
            tally.verified()


def check_bounds(home: HoldfastHome) -> None:
    """Law 1: within the caps, or it says what holds them above."""
    policy = Policy(everywhere=Limits(caps=Caps(max_count=MOST_SESSIONS)))
    made = plan(policy, home.scan(time.time()), time.time(), command="sessions prune")
    checked(apply(made, home, clock=time.time))
    left = len(home.create_session_store().find(SessionFilter()))
    told = max((each.remaining for each in made.shortfalls), default=MOST_SESSIONS)
    assert left <= told, (left, told)
    bytes_only = CheckpointPolicy(max_bytes=MOST_CHECKPOINT_BYTES, trash_age=None)
    _, last = bound_checkpoints(
        home, bytes_only, command="checkpoints prune", clock=time.time, progress=Silent()
    )
    taken = file_bytes(home.root / "checkpoints")
    assert taken <= MOST_CHECKPOINT_BYTES or last.shortfalls, taken
