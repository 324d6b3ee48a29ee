"""Holdfast's entries in the settings of other agents: put in, taken out, looked at.

Everything is planned on the text of the files: what to write is known before anything is written,
and what others wrote stays byte for byte. An entry is ours when it starts `client.py` or
`client.pl` of Holdfast.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.hooks import json_edit
from holdfast.hooks.agents import AGENTS
from holdfast.model.rewrite import Rewrite, rewrite
from holdfast.model.session import Json
from holdfast.stores.files import read_file, storage_errors
from holdfast.value import dataclass, replace

USER, PROJECT = "user", "project"
_HERE = Path(__file__).parent
_OURS = re.compile(r"holdfast[/\\]hooks[/\\]client\.p[ly]")
#: An agent ends a hook after this time, in seconds; the first checkpoint of a large project takes
#: longest.
TIMEOUT = 120
_PLUGIN = "holdfast.js"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where and how to connect. `root` is the home directory of the user, or the project."""

    agent: str
    scope: str
    user_home: Path
    project: Path
    home: Path
    environ: Mapping[str, str]
    fails_closed: bool = False

    def words(self) -> list[str]:
        """The command that the agent starts."""
        python = os.path.realpath(sys.executable)
        closed = "closed" if self.fails_closed else "open"
        perl = shutil.which("perl", path=self.environ.get("PATH"))
        if perl is not None:  # it starts much faster, and asks the helper just as well
            return [perl, str(_HERE / "client.pl"), self.agent, closed, str(self.home), python]
        client = str(_HERE / "client.py")
        return [python, "-I", "-S", client, self.agent, closed, str(self.home)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """What is installed in one file: the command of each event. `problem` says why it cannot be
    read."""

    agent: str
    scope: str
    path: Path
    commands: Mapping[str, Sequence[str]]
    problem: str = ""

    @property
    def installed(self) -> bool:
        return bool(self.commands)


def plan_connect(setup: Setup) -> Sequence[Rewrite]:
    """What connecting would write. Entries of ours that are there are replaced, so that doing it
    again changes nothing."""
    return _planned(setup, connecting=True)


def plan_disconnect(setup: Setup, done: Sequence[Rewrite] = ()) -> Sequence[Rewrite]:
    """What disconnecting would write. `done` is what connecting wrote, the last one last: a file
    that nobody changed since becomes exactly what it was before."""
    back = {each.after: each for each in done if each.after}
    found = []
    for each in _planned(setup, connecting=False):
        known = back.get(each.before)
        exact = known is not None and known.path == each.path
        found.append(_reverse(known) if known is not None and exact else each)
    return found


def _reverse(change: Rewrite) -> Rewrite:
    return replace(change, before=change.after, after=change.before, old=change.new, new=change.old)


def wired(setup: Setup) -> Wired:
    """What is installed now."""
    path = settings_file(setup)
    found: dict[str, Sequence[str]] = {}
    problem = ""
    try:
        text = _text(path)
        if text is not None and setup.agent == "opencode":
            match = re.search(r"^const COMMAND = (\[.*\])$", text, re.MULTILINE)
            if match is not None:
                found = dict.fromkeys(AGENTS[setup.agent].events, json.loads(match[1]))
        elif text is not None:
            found = _commands(setup.agent, json_edit.value_of(text, json_edit.parse(text)))
    except (UsageError, ValueError) as error:
        problem = str(error)
    return Wired(agent=setup.agent, scope=setup.scope, path=path, commands=found, problem=problem)


def settings_file(setup: Setup) -> Path:
    """The file that holds our entries."""
    user = setup.scope == USER
    match setup.agent:
        case "claude-code":
            if user:
                return _folder(setup, "CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
            return setup.project / ".claude" / "settings.local.json"
        case "codex":
            folder = _folder(setup, "CODEX_HOME", ".codex")
            return (folder if user else setup.project / ".codex") / "hooks.json"
        case "gemini":
            around = _folder(setup, "GEMINI_CLI_HOME", "") if user else setup.project
            return around / ".gemini" / "settings.json"
        case "opencode":
            if user:
                base = _folder(setup, "XDG_CONFIG_HOME", ".config")
                return base / "opencode" / "plugins" / _PLUGIN
            return setup.project / ".opencode" / "plugins" / _PLUGIN
        case _:
            known = ", ".join(AGENTS)
            raise UsageError(f"Holdfast cannot be connected to {setup.agent!r}; it knows {known}.")


def _folder(setup: Setup, variable: str, usual: str) -> Path:
    given = setup.environ.get(variable)
    return Path(given) if given else setup.user_home / usual


# --- Plans ----------------------------------------------------------------------------------------


def _planned(setup: Setup, *, connecting: bool) -> Sequence[Rewrite]:
    path = settings_file(setup)
    if setup.agent == "opencode":
        return _changed(path, _plugin(setup) if connecting else None, replacing=_is_plugin)
    old = _text(path)
    new = "{}\n" if old is None or not old.strip() else old
    try:
        new = _without(setup.agent, new)
        if connecting:
            new = _with(setup, new)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message} Nothing was changed.") from None
    if not connecting and old is None:
        return ()
    if not connecting and new == "{}\n" and old is not None and _is_all_ours(setup.agent, old):
        return (*_trusted(setup, old, None), *_changed(path, None))
    return (*_changed(path, new), *_trusted(setup, old, new))


def _is_all_ours(agent: str, text: str) -> bool:
    """Whether a file that we would leave empty was made by us: Codex reads `hooks.json` for
    nothing but hooks."""
    return agent == "codex" and text != "{}\n"


def _with(setup: Setup, text: str) -> str:
    for event in AGENTS[setup.agent].events:
        text = json_edit.add(text, ("hooks", event), _entry(setup, event))
    return text


def _without(agent: str, text: str) -> str:
    for event in AGENTS[agent].events:
        text = json_edit.remove(text, ("hooks", event), _is_ours)
    return text


def _entry(setup: Setup, event: str) -> Json:
    command = shlex.join(setup.words())
    handler: dict[str, Json] = {"type": "command", "command": command, "timeout": TIMEOUT}
    if setup.agent == "gemini":
        handler |= {"name": "holdfast", "timeout": TIMEOUT * 1_000}
    if setup.agent == "claude-code" and setup.fails_closed:
        handler["onFailure"] = "block"
    tool = event in ("PreToolUse", "BeforeTool") and setup.agent != "codex"
    return {**({"matcher": "*"} if tool else {}), "hooks": [handler]}


def _handlers(entry: Json) -> list[dict[str, Json]]:
    """What an entry starts; nothing when it is not one."""
    found = entry.get("hooks") if isinstance(entry, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_ours(entry: Json) -> bool:
    """Whether everything that an entry starts is ours."""
    handlers = _handlers(entry)
    return bool(handlers) and all(_OURS.search(str(each.get("command"))) for each in handlers)


def _commands(agent: str, said: Json) -> dict[str, Sequence[str]]:
    hooks = said.get("hooks") if isinstance(said, dict) else None
    found: dict[str, Sequence[str]] = {}
    for event in AGENTS[agent].events:
        entries = hooks.get(event) if isinstance(hooks, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if _is_ours(entry):
                found[event] = shlex.split(str(_handlers(entry)[0]["command"]))
    return found


# --- OpenCode: a file of our own ------------------------------------------------------------------


def _plugin(setup: Setup) -> str:
    text = (_HERE / "opencode_plugin.js").read_text()
    closed = json.dumps(setup.fails_closed)
    text = text.replace("/*COMMAND*/ []", json.dumps(setup.words()))
    return text.replace("/*CLOSED*/ false", closed)


def _is_plugin(text: str) -> bool:
    return text.startswith("// Holdfast in the loop of OpenCode.")


# --- Codex: hooks that are not trusted are passed over without a word -----------------------------


def _trusted(setup: Setup, old: str | None, new: str | None) -> Sequence[Rewrite]:
    """Codex keeps in config.toml which hooks the user trusts, by the place of each in its file."""
    if setup.agent != "codex":
        return ()
    config = _folder(setup, "CODEX_HOME", ".codex") / "config.toml"
    source = os.path.realpath(settings_file(setup))
    before = _text(config) or ""
    text = before
    for event in AGENTS["codex"].events:
        name = _snake(event)
        was, now = _entries(old, event), _entries(new, event)
        for number, entry in enumerate(was):
            if _is_ours(entry):
                text = _forget(text, f"{source}:{name}:{number}:0")
        text = _renumber(text, f"{source}:{name}", was, now)
        for number, entry in enumerate(now):
            if _is_ours(entry):
                text = _trust(text, f"{source}:{name}:{number}:0", name, entry)
    if text == before:
        return ()
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{config}: {error}. Nothing was changed.") from None
    return _changed(config, text)


def _entries(text: str | None, event: str) -> list[Json]:
    if text is None or not text.strip():
        return []
    said = json_edit.value_of(text, json_edit.parse(text))
    hooks = said.get("hooks") if isinstance(said, dict) else None
    listed = hooks.get(event) if isinstance(hooks, dict) else None
    return listed if isinstance(listed, list) else []


def trust_hash(event: str, entry: Json) -> str:
    """What Codex trusts: the entry with its defaults, keys in order, as compact JSON."""
    full: list[Json] = [{"async": False, **each} for each in _handlers(entry)]
    rest = entry if isinstance(entry, dict) else {}
    said: dict[str, Json] = {**rest, "event_name": event, "hooks": full}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _table(key: str) -> str:
    return f"[hooks.state.{json.dumps(key, ensure_ascii=False)}]"


def _trust(text: str, key: str, event: str, entry: Json) -> str:
    text = _forget(text, key)
    end = "" if not text or text.endswith("\n") else "\n"
    return f'{text}{end}{_table(key)}\ntrusted_hash = "{trust_hash(event, entry)}"\n'


def _forget(text: str, key: str) -> str:
    """Without what is said about the trust in one hook."""
    pattern = re.escape(_table(key)) + r"\n(?:(?!\s*\[)[^\n]*(?:\n|$))*"
    return re.sub(pattern, "", text)


def _renumber(text: str, start: str, was: Sequence[Json], now: Sequence[Json]) -> str:
    """Entries of others keep their trust when ours leave the list before them."""
    others = [number for number, entry in enumerate(was) if not _is_ours(entry)]
    places = [number for number, entry in enumerate(now) if not _is_ours(entry)]
    for old, new in zip(others, places, strict=False):
        if old != new:
            quoted = json.dumps(start, ensure_ascii=False)[:-1]
            text = text.replace(f"[hooks.state.{quoted}:{old}:", f"[hooks.state.{quoted}:{new}:")
    return text


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


# --- Files ----------------------------------------------------------------------------------------


def _text(path: Path) -> str | None:
    with storage_errors(f"read {path}"):
        try:
            return read_file(path).decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise UsageError(f"{path} is not UTF-8; nothing was changed.") from None


def _changed(
    path: Path, new: str | None, *, replacing: Callable[[str], bool] = lambda _: True
) -> Sequence[Rewrite]:
    old = _text(path)
    if old is not None and not replacing(old):
        raise UsageError(
            f"{path} is not a file of Holdfast's; nothing was changed.",
            hint="Move it away, and try again.",
        )
    if old == new:
        return ()
    folders: list[str] = []
    for folder in (path.parent, *path.parent.parents):
        if folder.is_dir():
            break
        folders.insert(0, str(folder))
    made = tuple(folders) if new is not None else ()
    was = None if old is None else old.encode()
    return [rewrite(str(path), was, None if new is None else new.encode(), folders=made)]
