"""Whatever stands in a file or the environment: settings, or a ConfigError, and nothing else."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.reader import check, load, warnings
from holdfast.config.settings import KEYS, TABLES, Settings, build
from holdfast.config.template import template
from holdfast.errors import ConfigError
from holdfast.model.text import one_line
from tests import tally

FLAGS = (
    "sessions.auto_prune",
    "sessions.auto_gc",
    "sessions.auto_archive",
    "sessions.keep_titled",
    "checkpoints.enabled",
    "checkpoints.delete_orphans",
    "checkpoints.auto_prune",
    "checkpoints.hash_all",
    "vault.enabled",
    "hooks.checkpoints",
    "hooks.helper",
)
KNOWN = [*(key.name for key in KEYS), *TABLES, "source"]
NAMES = st.one_of(st.sampled_from(KNOWN), st.text(max_size=70))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=0, max_value=100),
    st.integers(min_value=10**5000, max_value=10**5001),
    st.floats(),
    st.text(),
    st.sampled_from(["", "2w", "0d", "1d12h", "7", "keep", "delete", "jsonl"]),
    st.datetimes(),
    st.dates(),
    st.times(),
    st.binary(max_size=3),
)
DOCUMENTS = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=6)
        ),
        max_leaves=20,
    ),
    max_size=6,
)
PIECES = st.sampled_from(
    [*KNOWN, "=", " ", "\n", ".", "[", "]", "{", "}", ",", "#", '"', "'", '"""', "'''", "\\", "7"]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join))
VARIABLES = st.one_of(
    st.sampled_from([key.variable for key in KEYS]),
    st.text(max_size=20).map("HOLDFAST_{}".format),
)


def sound(result: Settings) -> None:
    """What must hold of any settings that were let through."""
    result.policy()
    options = result.session_options()
    assert options.idle_minutes is None or options.idle_minutes > 0
    assert 0 < options.limits.warn_share < 1
    assert options.abandoned_after == 0 or options.abandoned_after >= 3600
    assert 1 <= result.trash_days <= 3650
    assert result.sessions.idle_hours >= 1
    assert result.maintenance.interval > 0
    assert result.notify.timeout_seconds > 0
    assert all(result.notify.program[:1])
    for key, value, origin in result.entries():
        assert origin
        assert not isinstance(value, bool) or key in FLAGS
        assert not isinstance(value, float) or math.isfinite(value)


@settings(deadline=None)  # the machine may be busy
@given(DOCUMENTS, TEXTS)
def test_any_document(document: dict[str, object], text: str) -> None:
    values, problems = check(document, text, "config.toml")
    for problem in problems:
        line = str(problem)
        assert line == one_line(line)
        assert len(line) < 600
    sound(build(values))


def outcome(path: Path | None, environ: dict[str, str]) -> Settings | ConfigError:
    try:
        return load(path, environ)
    except ConfigError as error:
        return error


def sound_or_said(result: Settings | ConfigError) -> None:
    tally.injected()
    tally.verified()
    if isinstance(result, Settings):
        sound(result)
    else:
        assert all(line == one_line(line) for line in result.message.split("\n"))


def load_bytes(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.toml")
        path.write_bytes(data)
        sound_or_said(outcome(path, {}))


@settings(deadline=None)  # the machine may be busy
@given(TEXTS)
def test_any_text(text: str) -> None:
    load_bytes(text.encode("utf-8", "surrogatepass"))


@settings(deadline=None)  # the machine may be busy
@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    load_bytes(data)


@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_any_damage_to_the_template(data: st.DataObject) -> None:
    text = template().replace("\n# ", "\n")
    at = data.draw(st.integers(min_value=0, max_value=len(text)))
    length = data.draw(st.integers(min_value=0, max_value=30))
    damaged = text[:at] + data.draw(TEXTS) + text[at + length :]
    load_bytes(damaged.encode("utf-8", "surrogatepass"))


@settings(deadline=None)  # the machine may be busy
@given(st.dictionaries(VARIABLES, TEXTS))
def test_any_environment(environ: dict[str, str]) -> None:
    assert all(line == one_line(line) for line in warnings(environ))
    sound_or_said(outcome(None, environ))
