"""The entry point: exit codes, errors, broken pipes and Ctrl-C.

Click is loaded for most commands only. `holdfast --version` and `holdfast --help` are answered
here: the help page is kept in generated_help.txt, which `make docs` writes and a test compares with
the commands. `holdfast checkpoints take` has a fast path (decision 0032).
"""

from __future__ import annotations

import gc
import os
import sys

from holdfast import __version__
from holdfast.cli.streams import (
    OutputError,
    discard_output,
    interrupted_words,
    output_errors,
    prepare,
    state,
    write,
    write_error,
)

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT, as shells count
DECLINED = 3
HELP_WIDTH = 80
_VALUES_BETWEEN_LOOKS = 500_000
#: Set by a shell that requests completions instead of running a command.
_COMPLETION = "_HOLDFAST_COMPLETE"


def main() -> None:
    args = sys.argv[1:]
    code = run(args)
    if "take" in args and "threading" not in sys.modules:
        # Nothing is left to do, and shutting the interpreter down takes longer than writing a
        # checkpoint.
        sys.stderr.flush()
        os._exit(code)
    # At exit, Python looks for cycles among all objects, several times: a tenth of a quick command.
    # That is not needed: files and databases are closed, and output is flushed.
    gc.freeze()
    sys.exit(code)


def run(args: list[str]) -> int:
    """Run one command line and return its exit code."""
    prepare()
    # A plan of 200,000 items creates no cycles; looking for them would take a quarter of the time.
    # Below this number, as for a prune of 5,000 sessions, Python does not look at all.
    gc.set_threshold(_VALUES_BETWEEN_LOOKS, 50, 50)
    try:
        code = _dispatch(args) if (quick := _quick(args)) is None else quick
        with output_errors():
            sys.stdout.flush()
    except KeyboardInterrupt:
        write_error(interrupted_words(_home_flag(args)))
        return INTERRUPTED
    except OutputError as error:
        return _output_failed(error.cause)
    return code


def _home_flag(args: list[str]) -> str:
    """The flag for the home that was named, for a suggested command."""
    import shlex

    given = [args[at + 1] for at, each in enumerate(args[:-1]) if each == "--home"]
    given += [each.partition("=")[2] for each in args if each.startswith("--home=")]
    return f"--home {shlex.quote(given[-1])} " if given else ""


def _output_failed(error: OSError) -> int:
    discard_output()
    if isinstance(error, BrokenPipeError):
        # The reader of our output exited early. That is no error, and `pipefail` must not make it
        # one.
        return DECLINED if state.will_ask else 0
    sys.stderr.write(f"error: Cannot write the output: {error.strerror or error}\n")
    return FAILED


def _quick(args: list[str]) -> int | None:
    """The exit code if the line can be handled without the commands; None for everything else."""
    if args == ["--version"]:
        write(f"holdfast {__version__}\n")
        return 0
    if args in (["--help"], ["-h"], ["help"]) and _is_wide():
        help_page = __file__.removesuffix("main.py") + "generated_help.txt"
        with open(help_page, encoding="utf-8") as page:  # noqa: PTH123 - pathlib is slow to import
            write(page.read())
        return 0
    return _quick_take(args) if "take" in args else None


def _quick_take(args: list[str]) -> int | None:
    """The exit code of a plain `checkpoints take`; None if click has to parse the line."""
    if _COMPLETION in os.environ:
        return None
    from holdfast.cli import helper_take

    with output_errors():
        if (code := helper_take.take(args, _may_change)) is not None:
            return code
    from holdfast.cli.report_error import exit_code
    from holdfast.cli.take import quick

    found = quick(args)
    return None if found is None else exit_code(*found)


def _may_change() -> None:
    state.only_reads = False


def _is_wide() -> bool:
    """True if there is room for the stored page; a narrower terminal gets a new layout."""
    if "COLUMNS" in os.environ:
        return os.environ["COLUMNS"] == str(HELP_WIDTH)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns >= HELP_WIDTH
    except (OSError, ValueError, AttributeError):
        return True  # not a terminal: 80 columns


def _dispatch(args: list[str]) -> int:
    from holdfast.cli.app import invoke

    return invoke(args)
