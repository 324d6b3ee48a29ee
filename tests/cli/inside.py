"""The command in this process: ten times as quick as a real one. For what it says and decides;
signals, terminals and streams need a real process (`Machine.run`)."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from unittest import mock

from holdfast.cli import main
from tests.cli.machine import Machine
from tests.cli.runner import Result


class Inside:
    """Runs commands on a machine of a test. `answers` are typed at questions: there is a terminal
    to ask on when there are some."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def run(
        self,
        *args: str,
        answers: str | None = None,
        columns: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        out, err = _Stream(), _Stream()
        given = dict(self.machine.env(env))
        if columns is not None:
            given["COLUMNS"] = str(columns)
        with _as_process(given, _Typed(answers), out, err):
            code = main.run(list(args))
        said = Result(code=code, out=out.text(), err=err.text())
        assert "Internal error" not in said.out + said.err, said
        return said

    def ok(self, *args: str, answers: str | None = None) -> Result:
        result = self.run(*args, answers=answers)
        assert result.code == 0, result
        return result

    def json(self, *args: str, code: int = 0) -> object:
        result = self.run("--json", *args)
        assert result.code == code, result
        return result.document


class _Stream(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        return bytes(self.buffer.getvalue()).decode()  # type: ignore[attr-defined]


class _Typed(io.StringIO):
    def __init__(self, answers: str | None) -> None:
        super().__init__(answers or "")
        self._asks = answers is not None

    def isatty(self) -> bool:
        return self._asks


@contextlib.contextmanager
def _as_process(
    env: Mapping[str, str], typed: io.StringIO, out: io.TextIOWrapper, err: io.TextIOWrapper
) -> Iterator[None]:
    with (
        mock.patch.dict(os.environ, env, clear=True),
        mock.patch("sys.stdin", typed),
        mock.patch("sys.stdout", out),
        mock.patch("sys.stderr", err),
    ):
        yield
