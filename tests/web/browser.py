"""A browser of the system in front of a real server: `holdfast web` as people start it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.cli.machine import Machine
from tests.cli.runner import environment

#: Where a browser of the system may be.
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser() -> str | None:
    """The path of Chromium, or of what is made from it; `HOLDFAST_BROWSER` says which."""
    named = os.environ.get("HOLDFAST_BROWSER")
    return named or next((found for each in _BROWSERS if (found := shutil.which(each))), None)


@contextmanager
def serving(machine: Machine, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a server over these homes, with its token."""
    command = [
        sys.executable,
        "-m",
        "holdfast",
        "web",
        "--no-open",
        *(() if "--port" in flags else ("--port", "0")),
        *flags,
    ]
    with subprocess.Popen(
        command,
        env=environment(machine.user, **(env or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"http://\S+", line):
                    yield found[0]
                    break
            else:
                raise AssertionError(process.stderr and process.stderr.read())
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":  # for `make test-web`
    sys.exit(0 if browser() else 1)
