"""The way in: exit codes, errors, broken pipes and Ctrl-C.

`holdfast --version` is answered here, before anything slow is imported.
"""

from __future__ import annotations

import sys

from holdfast.cli.streams import (
    OutputError,
    discard_output,
    output_errors,
    prepare,
    write,
)

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT, as shells count
BROKEN_PIPE = 141  # 128 + SIGPIPE


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run one command line and return its exit code."""
    prepare()
    try:
        code = _version() if args == ["--version"] else _dispatch(args)
        with output_errors():
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        return _output_failed(error.cause)
    return code


def _output_failed(error: OSError) -> int:
    discard_output()
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE  # whoever read our output has gone, and knows why
    sys.stderr.write(f"error: Cannot write the output: {error.strerror or error}\n")
    return FAILED


def _version() -> int:
    from holdfast import __version__

    write(f"holdfast {__version__}\n")
    return 0


def _dispatch(args: list[str]) -> int:
    from holdfast.cli.app import invoke

    return invoke(args)
