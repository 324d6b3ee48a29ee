"""Files of every sort, read into settings or refused in clear words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.config.reader import load
from holdfast.errors import ConfigError

DEFAULTS = load(None, {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def refusal(path: Path) -> str:
    """What is said about `path`, after its name."""
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value.message.removeprefix(str(path))


def test_no_file_means_defaults(file: Path) -> None:
    assert load(file, {}) == DEFAULTS
    assert load(file.parent / "no" / "folder", {}) == DEFAULTS


@pytest.mark.parametrize("data", [b"", b"\n", b"# x", b"[sessions]\r\n"])
def test_nothing_set_means_defaults(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert load(file, {}) == DEFAULTS


def test_a_file(file: Path) -> None:
    file.write_text("trash_days = 3\n[sessions]\nkeep_within = '2w'\n", encoding="utf-8")
    settings = load(file, {})
    assert settings.trash_days == 3
    assert settings.sessions.keep_within == "2w"
    assert settings.sessions.retention_days == 90


BAD_BYTES = {
    b"\xef\xbb\xbftrash_days = 1": (
        ":1: begins with a byte order mark (BOM); save it as UTF-8 without one"
    ),
    b"# ok\n# \xe9t\xe9\n": ":2: is not UTF-8 text (byte 0xe9); save it as UTF-8",
    b"\xff\xfet\0": ":1: is not UTF-8 text (byte 0xff); save it as UTF-8",
    b"\n\ntrash_days = = 1": ":3: not valid TOML: Invalid value (column 14)",
    b"a = 1\na = 2\n": ":2: not valid TOML: Cannot overwrite a value (column 6)",
    b"[sessions]\n[sessions]\n": ":2: not valid TOML: [sessions] is declared twice (column 10)",
    b"trash_days": (
        ": not valid TOML: Expected '=' after a key in a key/value pair (at end of document)"
    ),
    b"a = " + b"[" * 100_000: ": not valid TOML: nested too deeply",
    b"#" * (1024 * 1024 + 1): ": is larger than 1 MiB, too large for a configuration file",
}


@pytest.mark.parametrize("data", BAD_BYTES, ids=lambda data: repr(data[:12]))
def test_bytes_that_are_no_document(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert refusal(file) == BAD_BYTES[data]


def test_a_number_of_too_many_digits(file: Path) -> None:
    file.write_text(f"trash_days = {'9' * 5000}", encoding="utf-8")
    message = refusal(file)
    assert message.startswith(": not valid TOML: ")
    assert len(message) < 150


def test_a_file_of_exactly_the_largest_size(file: Path) -> None:
    file.write_bytes(b"#" * 1024 * 1024)
    assert load(file, {}) == DEFAULTS


def test_a_directory(file: Path) -> None:
    file.mkdir()
    assert refusal(file) == ": is a directory; the configuration must be a file"


def test_a_parent_that_is_a_file(file: Path) -> None:
    file.touch()
    assert refusal(file / "config.toml").startswith(": cannot be read: ")


def test_a_symlink_to_a_file_is_followed(file: Path) -> None:
    (file.parent / "real").write_text("trash_days = 2", encoding="utf-8")
    file.symlink_to("real")
    assert load(file, {}).trash_days == 2


def test_a_symlink_loop(file: Path) -> None:
    file.symlink_to(file)
    assert refusal(file).startswith(": cannot be read: ")


def test_a_symlink_to_nothing_is_not_a_missing_file(file: Path) -> None:
    file.symlink_to("gone")
    assert refusal(file) == ": is a symbolic link to nothing"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs fifos")
def test_a_fifo_is_refused_and_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    assert refusal(file) == ": is not a regular file"


def test_a_file_that_may_not_be_read(file: Path) -> None:
    file.touch(mode=0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    assert refusal(file) == ": cannot be read: Permission denied"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "x" * 5000], ids=["nul", "surrogate", "long"])
def test_a_path_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Path("/tmp") / name, {})  # noqa: S108 - never made
    assert "\n" not in caught.value.message
    assert "cannot be read: " in caught.value.message


def test_all_problems_one_a_line_and_none_used(file: Path) -> None:
    file.write_text("[sessions]\nretention_dys = 1\nkeep_last = 1.5\n", encoding="utf-8")
    environ = {"HOME": str(file.parent), "HOLDFAST_TRASH_DAYS": "0", "HOLDFAST_SESSIONS_PINS": ","}
    with pytest.raises(ConfigError) as caught:
        load(file, environ)
    assert caught.value.message.splitlines() == [
        '~/config.toml:2: sessions.retention_dys: unknown key; did you mean "retention_days"?',
        "~/config.toml:3: sessions.keep_last: expected a whole number from 0 to 1000000, found 1.5",
        (
            "HOLDFAST_TRASH_DAYS: trash_days: expected a whole number from 1 to 3650, found 0;"
            " --now skips the trash for one run"
        ),
        "HOLDFAST_SESSIONS_PINS: sessions.pins: item 1 is empty",
        "HOLDFAST_SESSIONS_PINS: sessions.pins: item 2 is empty",
    ]


def test_a_broken_file_does_not_hide_a_broken_variable(file: Path) -> None:
    file.write_text("=", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, {"HOLDFAST_TRASH_DAYS": "x"})
    assert len(caught.value.message.splitlines()) == 2


def test_a_path_with_a_newline_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb.toml"
    path.write_text("x = 1", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert caught.value.message.endswith("a\\nb.toml:1: x: unknown key")


def test_importing_it_loads_no_parser() -> None:
    code = (
        "import sys, holdfast\n"
        "before = set(sys.modules)\n"
        "from holdfast.config.reader import load\n"
        "load(None, {})\n"
        "print(sorted({'tomllib', 'difflib', 'json'} & (set(sys.modules) - before)))"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
