"""The check-up of Hermes's own configuration, on files that may hold anything."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.homes.hermes import config_check, config_file
from holdfast.model.checkup import Finding, Severity
from tests.cli.machine import Machine
from tests.compat.hermes_sessions import recorded

#: Where a file has this, no message may.
SECRET = "hunter2hunter2"  # noqa: S105 - of nobody
KEYS = Path(__file__).parents[1] / "data" / "hermes-root-keys.json"
CANNOT = "cannot load this file"


def found(root: Path, config: str | bytes | None = None, env: str | None = None) -> list[Finding]:
    for name, content in ((config_check.CONFIG, config), (config_check.ENVIRONMENT, env)):
        raw = content.encode(errors="surrogatepass") if isinstance(content, str) else content
        (root / name).write_bytes(raw or b"")
    return list(config_check.check(root))


def told(root: Path, config: str | bytes, env: str = "") -> list[str]:
    """The problems, each without the path that all of them begin with."""
    problems = [each for each in found(root, config, env) if each.severity is not Severity.OK]
    assert all(each.message.startswith(str(root.resolve())) for each in problems)
    assert all(each.severity is Severity.WARNING and each.advice for each in problems)
    return [each.message.removeprefix(str(root.resolve())) for each in problems]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


# --- Whatever the files hold ----------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("model", "fallback_providers", "session_reset", "idle_minutes", "platforms", "enabled"),
        *("api_server", "provider", "modle", SECRET, "true", "0", "-3", "'30'", "2026-13-45", "~"),
        *(": ", ":", "\n", "\n  ", "\n    ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "<<: *a"),
        *(
            "!",
            "!!",
            "|",
            ">",
            "'",
            '"',
            "#",
            "%",
            "@",
            "`",
            "\t",
            "---",
            "...",
            "?",
            "\0",
            "é",
            "\ud800",
        ),
    ]
)
TEXTS = st.lists(WORDS, max_size=30).map("".join)


@given(config=TEXTS, env=TEXTS)
@example(config=f"a: !{SECRET}", env="")
@example(config=f"a: *{SECRET}", env="")
@example(config=f'a: "\\q{SECRET}"', env="")
@example(config=f"a: &{SECRET} 1\nb: &{SECRET} 2", env="")
@example(config=f"{SECRET}", env=SECRET)
@example(config=f"{SECRET}-1: 2\n{SECRET}: 1", env=f"API_SERVER_KEY={SECRET}")
@example(config="a: &a\n  <<: *a\nplatforms: *a", env="")
@example(config="? [a]\n: 1", env="")
def test_no_file_is_too_odd_and_what_hermes_cannot_load_is_told(
    place: Path, config: str, env: str
) -> None:
    messages = [each.message + each.advice for each in found(place, config, env)]
    assert messages
    assert not any(SECRET in each for each in messages)
    assert not any(SECRET.upper() in each for each in messages)
    try:
        yaml.safe_load(config.encode(errors="surrogatepass"))
        loads = True
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        loads = False
    assert any(CANNOT in each for each in messages) is not loads, (config, messages)


@given(raw=st.binary(max_size=200))
def test_bytes_of_any_kind_are_survived(place: Path, raw: bytes) -> None:
    assert found(place, raw)
    (place / config_check.ENVIRONMENT).write_bytes(raw)
    assert list(config_check.check(place))


def test_a_bomb_of_aliases_is_only_looked_at(tmp_path: Path) -> None:
    """As values these would be 10 ** 20 entries, as merges 2 ** 40."""
    lines = ["l0: &l0 [1,1,1,1,1,1,1,1,1,1]", "m0: &m0 {a: 1}"]
    lines += [f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 20)]
    lines += [f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, 40)]
    bomb = "\n ".join(["quick_commands:", *lines])
    ends = "fallback_providers: *l19\nsession_reset: *m39\n"
    assert all("`fallback_providers[" in each for each in told(tmp_path, f"{bomb}\n{ends}"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a: \xff\n", "line 1: it is not valid UTF-8"),
        (b"a: 1\nb: \x00\n", "line 2: it has a character that YAML does not allow"),
        (b"#" * (config_file.LONGEST + 1), "it is larger than"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"model: x\n  bad: [\n", "line 2: mapping values are not allowed here"),
        (b"a: 1\n---\nb: 2\n", "line 2: "),
    ],
    ids=["bytes", "nul", "huge", "deep", "wrong", "two documents"],
)
def test_a_file_that_cannot_be_loaded_is_told_with_line_and_reason(
    tmp_path: Path, content: bytes, why: str
) -> None:
    [only] = told(tmp_path, content)
    assert only.startswith("/config.yaml")
    assert why in only
    assert CANNOT in only


@pytest.mark.parametrize("name", [config_check.CONFIG, config_check.ENVIRONMENT])
def test_what_is_no_file_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    os.mkfifo(path)
    [pipe] = config_check.check(tmp_path)
    assert f"{path}: it is not a regular file" in pipe.message
    path.unlink()
    path.mkdir()
    [folder] = config_check.check(tmp_path)
    assert "not a regular file" in folder.message
    path.rmdir()
    path.symlink_to(path)
    [ring] = config_check.check(tmp_path)
    assert "cannot be opened" in ring.message
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    [nowhere] = config_check.check(tmp_path)
    assert "a link to a file that is not there" in nowhere.message


def test_a_home_without_these_files_is_fine(tmp_path: Path) -> None:
    [only] = config_check.check(tmp_path)
    assert only.severity is Severity.OK


# --- What is wrong with them ----------------------------------------------------------------------


def test_every_key_that_a_release_knows_is_known(tmp_path: Path) -> None:
    keys = [key for names in json.loads(KEYS.read_text()).values() for key in names]
    assert len(keys) > 90
    text = "".join(f"{key}:\n" for key in keys) + "TELEGRAM_HOME_CHANNEL: 123\n"
    assert told(tmp_path, text) == []


@given(key=st.sampled_from(sorted(config_check.ROOT_KEYS)), data=st.data())
def test_a_mistyped_key_gets_the_nearest_one(place: Path, key: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(key) - 1))
    mistyped = key[:at] + key[at - 1] + key[at:]
    if config_check.is_known(mistyped) or len(key) < 5:
        return
    [only] = told(place, f"model: x\n{mistyped}: 1\n")
    assert only.startswith(f"/config.yaml, line 2: Hermes has no key `{mistyped}`; did you mean `")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("fallback_providers: []", None),
        ("fallback_providers:", None),
        ("fallback_providers: [{provider: a, model: b, base_url: c}]", None),
        ("fallback_providers: {provider: a, model: 5}", None),
        ("fallback_providers: openrouter", "must be a list"),
        ("fallback_providers: [openrouter]", "`fallback_providers[0]` needs `provider: …` and"),
        ("fallback_providers: [{provider: a}]", "needs `model: …`"),
        ("fallback_providers: [{provider: a, model: b}, {model: b}]", "[1]` needs `provider: …`"),
        ("fallback_providers: [{provider: '', model: b}]", "needs `provider: …`"),
        ("fallback_model: gpt", "`fallback_model` must be a list"),
        ("x: &x {provider: a}\nfallback_model: {<<: *x, model: b}", "no key `x`"),
        ("session_reset: {idle_minutes: 1}", None),
        ("session_reset: {mode: none}", None),
        ("session_reset: {idle_minutes: 0}", "must be more than 0"),
        ("session_reset: {idle_minutes: -0.5}", "must be more than 0"),
        ("session_reset: {idle_minutes: .nan}", "must be more than 0"),
        ("session_reset: {idle_minutes: '30'}", "must be a number"),
        ("session_reset: {idle_minutes: true}", "must be a number"),
        ("session_reset: {idle_minutes: [1]}", "must be a number"),
        ("gateway: {session_reset: {idle_minutes: 0}}", "`gateway.session_reset.idle_minutes`"),
        ("- a\n- b", "not a list of `key: value` lines"),
        ("just words", "not a list of `key: value` lines"),
        ("model: a\nweb: {}\nmodel: b", "line 3: `model` appears twice, first in line 1"),
    ],
)
def test_what_the_structure_should_be(tmp_path: Path, config: str, expected: str | None) -> None:
    messages = told(tmp_path, config)
    assert len(messages) == (expected is not None)
    assert expected is None or expected in messages[0]


ON = "platforms: {api_server: {enabled: true}}"


@pytest.mark.parametrize(
    ("config", "env", "where"),
    [
        ("", "", None),
        (ON, "", "config.yaml, line 1"),
        ("gateway:\n  platforms: {api_server: {enabled: 'yes'}}", "", "config.yaml, line 2"),
        ("api_server: {enabled: true}", "", "config.yaml, line 1"),
        ("", "API_SERVER_ENABLED=true", ".env"),
        ("", "export API_SERVER_ENABLED='1' # on", ".env"),
        ("", "API_SERVER_ENABLED=1\nAPI_SERVER_ENABLED=0", None),
        ("", "#API_SERVER_ENABLED=1", None),
        (ON, "API_SERVER_KEY=", "config.yaml"),
        (ON, "API_SERVER_KEY=''", "config.yaml"),
        (ON, "#API_SERVER_KEY=abc", "config.yaml"),
        (ON, f"API_SERVER_KEY={SECRET}", None),
        (ON, f'export API_SERVER_KEY="{SECRET}"', None),
        (f"platforms: {{api_server: {{enabled: true, extra: {{key: {SECRET}}}}}}}", "", None),
        (f"platforms: {{api_server: {{enabled: true, key: {SECRET}}}}}", "", "config.yaml"),
        ("platforms: {api_server: {enabled: false}}", "", None),
        (": [", "API_SERVER_ENABLED=true", ".env"),
    ],
)
def test_an_api_server_without_a_key_is_told(
    tmp_path: Path, config: str, env: str, where: str | None
) -> None:
    messages = [each for each in told(tmp_path, config, env) if "API server" in each]
    assert len(messages) == (where is not None)
    assert where is None or messages[0].startswith(f"/{where}")
    assert not any(SECRET in each for each in messages)


def test_doctor_tells_it_and_changes_nothing(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path)
    machine.user.mkdir()
    real = recorded(tmp_path).rename(machine.root / "real home")
    link = machine.user / ".hermes"
    link.symlink_to(real)
    (real / "config.yaml").write_text(f"modle: {SECRET}\n")
    (real / ".env").write_text("API_SERVER_ENABLED=1\n")
    before = {path: path.read_bytes() for path in (real / "config.yaml", real / ".env")}
    findings = machine.json("--home", str(link), "doctor", "--repair", "--yes")["findings"]
    wrong = [each for each in findings if each["check"] == config_check.CHECK]
    assert [each["message"].split(":")[0] for each in wrong] == [
        f"{real}/config.yaml, line 1",
        f"{real}/.env",
    ]
    screen = machine.ok("--home", str(link), "doctor").out
    assert "did you mean" in screen
    assert SECRET not in screen + json.dumps(findings)
    assert {path: path.read_bytes() for path in before} == before
