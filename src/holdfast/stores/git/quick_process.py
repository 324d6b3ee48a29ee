"""A program that is only read from, started without `subprocess`: importing that takes longer than
starting git. It can replace a `Popen` with pipes."""

from __future__ import annotations

import os
import select
from _signal import (  # type: ignore[import-not-found]  # `signal` makes enumerations of them
    SIGKILL,
    SIGPIPE,
    SIGXFSZ,
)
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Self

_CHUNK = 65_536


class QuickProcess:
    """A running program without input, with pipes from stdout and stderr."""

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], kept: Sequence[int]
    ) -> None:
        """`kept` are descriptors that it keeps open. Raises `OSError` if it cannot be started."""
        self.returncode: int | None = None
        # Close-on-exec, so every program that this process starts closes them.
        output, its_output = os.pipe()
        errors, its_errors = os.pipe()
        self._pipes = [output, errors]
        try:
            self._id = os.posix_spawn(
                words[0],
                list(words),
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, its_output, 1),
                    (os.POSIX_SPAWN_DUP2, its_errors, 2),
                    *((os.POSIX_SPAWN_DUP2, each, each) for each in kept),
                ],
                setsigdef=[SIGPIPE, SIGXFSZ],  # Python ignores them, so reset them
            )
        except OSError:
            self._close()
            raise
        finally:
            os.close(its_output)
            os.close(its_errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._wait()

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self._id, SIGKILL)

    def communicate(self) -> tuple[bytes, bytes]:
        """Read stdout and stderr until the program ends."""
        said: dict[int, list[bytes]] = {each: [] for each in self._pipes}
        output, errors = self._pipes
        waiting = select.poll()
        for each in said:
            waiting.register(each, select.POLLIN | select.POLLHUP)
        still = set(said)
        while still:
            for each, _ in waiting.poll():
                some = os.read(each, _CHUNK)
                if some:
                    said[each].append(some)
                else:
                    waiting.unregister(each)
                    still.discard(each)
        self._close()
        self._wait()
        return b"".join(said[output]), b"".join(said[errors])

    def _wait(self) -> None:
        if self.returncode is None:
            _, status = os.waitpid(self._id, 0)
            self.returncode = os.waitstatus_to_exitcode(status)

    def _close(self) -> None:
        while self._pipes:
            os.close(self._pipes.pop())
