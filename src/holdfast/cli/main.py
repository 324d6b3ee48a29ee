"""The way in: exit codes, errors, broken pipes and Ctrl-C.

`holdfast --version` is answered here, before anything slow is imported.
"""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells count
BROKEN_PIPE = 141  # 128 + SIGPIPE


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        code = _version() if args == ["--version"] else _dispatch(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone. Nothing may be written any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _version() -> int:
    from holdfast import __version__

    sys.stdout.write(f"holdfast {__version__}\n")
    return 0


def _dispatch(args: list[str]) -> int:
    from holdfast.cli.app import invoke

    return invoke(args)
