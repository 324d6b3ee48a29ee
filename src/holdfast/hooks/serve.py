"""Handle one hook from beginning to end: parse the agent's input, decide, and format the answer.

Both the helper and the client use this.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.api.loop import Loop, prepare
from holdfast.api.place import Place
from holdfast.config import stamp_of
from holdfast.connect import BLOCKED
from holdfast.errors import COMMAND_FLAG, HoldfastError
from holdfast.hooks.agents import AGENTS, parsed
from holdfast.hooks.reply import SILENT, Reply
from holdfast.model.json_value import fields_to_json
from holdfast.model.loop import Moment


def serve(agent: str, home: Path, raw: bytes, *, fails_closed: bool = False) -> Reply:
    """Answer one hook. It never raises."""
    with _shell_hints(home):
        return _serve(agent, raw, lambda: Loop(Place(home)), fails_closed=fails_closed)


def refused(agent: str, why: str, home: Path, *, fails_closed: bool) -> Reply:
    """The answer to a hook that cannot be read at all."""
    return _failed(agent, why, lambda: Loop(Place(home)), fails_closed=fails_closed)


class Answerer:
    """Answers many hooks. Keeps what it read for a home until that home's configuration changes."""

    def __init__(self) -> None:
        self._loops: dict[Path, tuple[object, Loop]] = {}

    def serve(self, agent: str, home: Path, raw: bytes, *, fails_closed: bool = False) -> Reply:
        with _shell_hints(home):
            return _serve(agent, raw, lambda: self._loop(home), fails_closed=fails_closed)

    def take(self, home: Path, raw: bytes) -> Reply:
        """Take a checkpoint for a command. Raises `ValueError` on any failure: the command then
        does it itself, and reports the error."""
        workdir, reason, session, turn, *paths = raw.decode().split("\0")
        try:
            taking = self._loop(home).take(
                workdir, reason=reason, session=session, turn=turn, paths=paths
            )
        except HoldfastError as error:
            raise ValueError(error.message) from error
        if taking.id is None:
            raise ValueError(taking.reason)
        cut = taking.cut_restore
        if taking.not_captured or cut is not None:
            document = fields_to_json(taking, without=("not_captured", "cut_restore"))
            document["left"] = [(each.path, each.reason) for each in taking.not_captured]
            document["cut_restore"] = None if cut is None else fields_to_json(cut)
            return Reply(out=json.dumps(document))
        return Reply(out=f"{taking.outcome.value} {taking.id} {taking.excluded}")

    def may_help(self, home: Path) -> bool:
        """True if the home's configuration allows a helper."""
        return self._loop(home).may_have_helper()

    def follow(self) -> None:
        """Do the work that can wait until after the answer."""
        for _, loop in list(self._loops.values()):
            loop.follow()

    def close(self) -> None:
        for _, loop in self._loops.values():
            loop.close()

    def prepare(self) -> None:
        """Import what the first answer needs."""
        prepare()

    def _loop(self, home: Path) -> Loop:
        place = Place(home)
        stamp = stamp_of(place.config_file)
        known = self._loops.get(home)
        if known is None or known[0] != stamp:
            if known is not None:
                known[1].close()
            known = self._loops[home] = (stamp, Loop(place, resident=True))
            with suppress(OSError):
                known[1].forget_old()
        return known[1]


@contextmanager
def _shell_hints(home: Path) -> Iterator[None]:
    """Let hints print commands for a shell, with the home as a flag."""
    voice = COMMAND_FLAG.set(f"--home {shlex.quote(str(home))} ")
    try:
        yield
    finally:
        COMMAND_FLAG.reset(voice)


def _serve(agent: str, raw: bytes, loop: Callable[[], Loop], *, fails_closed: bool) -> Reply:
    try:
        event = parsed(agent, raw)
        if event.moment in (Moment.BEFORE_TOOL, Moment.PROMPT):
            decision = loop().decide(event, closed=fails_closed)
            return AGENTS[agent].answer(event, decision)
    except HoldfastError as error:
        return _failed(agent, error.message, loop, fails_closed=fails_closed)
    except Exception as error:  # noqa: BLE001 - a bug of ours must not break the agent
        why = f"{type(error).__name__}: {error}"
        return _failed(agent, why, loop, fails_closed=fails_closed)
    return SILENT


def _failed(agent: str, why: str, loop: Callable[[], Loop], *, fails_closed: bool) -> Reply:
    """The reply when there is no decision. The configuration is read as well, because it may be
    newer than the installed hook."""
    blocks = False
    with suppress(Exception):  # as above
        blocks = loop().blocks_on_failure()
        loop().count_failure(agent)
    text = f"Holdfast: the hook failed: {why}\n"
    return Reply(err=text, code=BLOCKED if fails_closed or blocks else 1)
