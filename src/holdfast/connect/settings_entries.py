"""Add Holdfast's entries to the settings of other agents, remove them, and read what is installed.

Changes are planned on the text of the files: the new content is known before anything is written,
and everything that is not ours stays byte for byte. An entry is ours if it starts Holdfast's
`client.py` or `client.pl`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from holdfast.connect import EVENTS, json_edit
from holdfast.connect.codex_trust import retrusted, trust_hash
from holdfast.connect.our_entries import is_our_handler, is_ours, our_command
from holdfast.connect.way_back import made_by_us, way_back
from holdfast.errors import UsageError
from holdfast.model.rewrite import Rewrite, hard_linked, rewrite
from holdfast.model.session import Json
from holdfast.stores.files import read_file, storage_errors
from holdfast.value import dataclass, replace

USER, PROJECT = "user", "project"
_HERE = Path(__file__).parent
#: The folder with the programs that agents start.
_CLIENTS = _HERE.parent / "hooks"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
#: An agent kills a hook after this many seconds. The first checkpoint of a large project takes the
#: longest.
TIMEOUT = 120
_PLUGIN = "plugins/holdfast.js"
#: For each agent: the environment variable for the user's settings folder, the default of that
#: folder, and the file that holds our entries, in that folder and in a project.
_FILES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", "settings.json", ".claude/settings.local.json"),
    "codex": ("CODEX_HOME", ".codex", "hooks.json", ".codex/hooks.json"),
    "gemini": ("GEMINI_CLI_HOME", "", ".gemini/settings.json", ".gemini/settings.json"),
    "opencode": ("XDG_CONFIG_HOME", ".config", f"opencode/{_PLUGIN}", f".opencode/{_PLUGIN}"),
}


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
        if perl is not None:  # starts much faster than Python, and can ask the helper too
            return [perl, str(_CLIENTS / "client.pl"), self.agent, closed, str(self.home), python]
        client = str(_CLIENTS / "client.py")
        return [python, "-I", "-S", client, self.agent, closed, str(self.home)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """Our hooks in one file: the command for each event. `problem` is why the file cannot be read,
    or ""."""

    agent: str
    scope: str
    path: Path
    commands: Mapping[str, Sequence[str]]
    problem: str = ""

    @property
    def installed(self) -> bool:
        return bool(self.commands)

    @property
    def home(self) -> Path | None:
        """The home that the installed hooks use."""
        words = next(iter(self.commands.values()), None)
        return None if words is None else Path(words[words.index(self.agent) + 2])

    @property
    def fails_closed(self) -> bool:
        """True if a tool must not run when the command fails."""
        return any(
            words[words.index(self.agent) + 1] == "closed" for words in self.commands.values()
        )


def plan_connect(setup: Setup) -> Sequence[Rewrite]:
    """Plan the files that connecting writes. Existing entries of ours are replaced, so connecting
    twice changes nothing."""
    return _planned(setup, connecting=True)


def plan_disconnect(setup: Setup, done: Sequence[Rewrite] = ()) -> Sequence[Rewrite]:
    """Plan the files that disconnecting writes. `done` are the rewrites of earlier connects, oldest
    first: a file that has not changed since gets exactly its old content back."""
    made = made_by_us(str(settings_file(setup)), EVENTS[setup.agent], done)
    planned = _planned(setup, connecting=False, known=_our_hashes(setup, done), made=made)
    return [way_back(each, done, _bytes(Path(each.path))) or each for each in planned]


def wired(setup: Setup) -> Wired:
    """Read what is installed now."""
    path = settings_file(setup)
    found: dict[str, Sequence[str]] = {}
    problem = ""
    try:
        text = text_of(path)
        if text is not None and setup.agent == "opencode":
            match = re.search(r"^const COMMAND = (\[.*\])$", text, re.MULTILINE)
            if match is not None:
                found = dict.fromkeys(EVENTS[setup.agent], json.loads(match[1]))
        elif text is not None:
            found = _commands(setup.agent, json_edit.value_of(text, json_edit.parse(text)))
    except (UsageError, ValueError) as error:
        problem = str(error)
    return Wired(agent=setup.agent, scope=setup.scope, path=path, commands=found, problem=problem)


def settings_file(setup: Setup) -> Path:
    """The file that holds our entries."""
    if setup.agent not in _FILES:
        known = ", ".join(EVENTS)
        raise UsageError(f"Holdfast cannot be connected to {setup.agent!r}; it knows {known}.")
    variable, usual, of_user, of_project = _FILES[setup.agent]
    if setup.scope == USER:
        return _folder(setup, variable, usual) / of_user
    return setup.project / of_project


def leads_to(setup: Setup, path: Path) -> str:
    """The target of `path` if it goes through a symlink below the project or the home directory;
    "" if there is none."""
    real = os.path.realpath(path)
    for root in (setup.project, setup.user_home):
        if path.is_relative_to(root):
            plain = os.path.join(os.path.realpath(root), path.relative_to(root))  # noqa: PTH118 - text
            return "" if real == plain else real
    return "" if real == str(path) else real


def _folder(setup: Setup, variable: str, usual: str) -> Path:
    given = setup.environ.get(variable)
    return Path(given) if given else setup.user_home / usual


# --- Plans ----------------------------------------------------------------------------------------


def _planned(
    setup: Setup,
    *,
    connecting: bool,
    known: frozenset[str] = frozenset(),
    made: Collection[tuple[str, ...]] = (),
) -> Sequence[Rewrite]:
    """Plan the rewrites. `made` are the containers in the settings that may be removed along with
    our entries."""
    path = settings_file(setup)
    if setup.agent == "opencode":
        return _changed(path, _plugin(setup) if connecting else None, replacing=_is_plugin)
    old = text_of(path)
    start = "{}\n" if old is None or not old.strip() else old
    try:
        new = _with(setup, start) if connecting else _without(setup.agent, start, made)
        json_edit.value_of(new, json_edit.parse(new))
    except UsageError as error:
        raise UsageError(f"{path}: {error.message} Nothing was changed.") from None
    if connecting:
        return (*_changed(path, new), *_trusted(setup, old, new, known))
    if new == start:
        return _trusted(setup, old, old, known)
    if setup.agent == "codex" and new.strip() == "{}":  # only hooks are in that file
        return (*_trusted(setup, old, None, known), *_changed(path, None))
    return (*_changed(path, new), *_trusted(setup, old, new, known))


def _with(setup: Setup, text: str) -> str:
    """Return the settings with our entries. An entry that is already correct keeps its formatting,
    so connecting twice changes nothing; an outdated entry of ours is replaced."""
    for event in EVENTS[setup.agent]:
        entry = _entry(setup, event)
        there = [each for each in entries_of(text, event) if our_command(each) is not None]
        without = _without_ours(text, event)  # always called: it refuses ambiguous settings
        if there != [entry]:
            text = json_edit.add(without, ("hooks", event), entry)
    return text


def _without(agent: str, text: str, made: Collection[tuple[str, ...]]) -> str:
    for event in EVENTS[agent]:
        text = _without_ours(text, event, made)
    return text


def _without_ours(text: str, event: str, made: Collection[tuple[str, ...]] = ()) -> str:
    stay = {("hooks",), ("hooks", event)}.difference(made)
    text = json_edit.remove(text, ("hooks", event), is_ours, stay=stay)
    # The user may have added another handler to our entry: that one stays.
    for number in range(len(entries_of(text, event))):
        text = json_edit.remove(text, ("hooks", event, number, "hooks"), is_our_handler)
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


def _commands(agent: str, said: Json) -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for event in EVENTS[agent]:
        for entry in _listed(said, event):
            command = our_command(entry)
            if command is not None:
                found[event] = shlex.split(command)
    return found


# --- OpenCode: a file of our own ------------------------------------------------------------------


def _plugin(setup: Setup) -> str:
    text = (_HERE / "opencode_plugin.js").read_text()
    closed = json.dumps(setup.fails_closed)
    text = text.replace("/*COMMAND*/ []", json.dumps(setup.words()))
    return text.replace("/*CLOSED*/ false", closed)


def _is_plugin(text: str) -> bool:
    return text.startswith("// Holdfast in the loop of OpenCode.")


# --- Codex: untrusted hooks are silently ignored --------------------------------------------------


def _trusted(
    setup: Setup, old: str | None, new: str | None, known: frozenset[str]
) -> Sequence[Rewrite]:
    """Codex stores in config.toml which hooks the user trusts, keyed by their position in
    hooks.json."""
    if setup.agent != "codex":
        return ()
    config = codex_config(setup)
    source = os.path.realpath(settings_file(setup))
    before = text_of(config) or ""
    text = before
    for event in EVENTS["codex"]:
        name = snake(event)
        was, now = entries_of(old, event), entries_of(new, event)
        text = retrusted(text, f"{source}:{name}", name, was, now, known)
    if text == before:
        return ()
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{config}: {error}. Nothing was changed.") from None
    return _changed(config, text)


def _our_hashes(setup: Setup, done: Sequence[Rewrite]) -> frozenset[str]:
    """Hashes of our hooks that may still be trusted although their entries are gone: the current
    ones, and those that earlier connects added to config.toml."""
    if setup.agent != "codex":
        return frozenset()
    config = str(codex_config(setup))
    added = [
        each.new.decode(errors="replace") for each in done if each.path == config and not each.old
    ]
    now = [
        trust_hash(snake(event), _entry(replace(setup, fails_closed=closed), event))
        for event in EVENTS["codex"]
        for closed in (False, True)
    ]
    return frozenset((*now, *(found for each in added for found in _HASH.findall(each))))


def codex_config(setup: Setup) -> Path:
    return _folder(setup, "CODEX_HOME", ".codex") / "config.toml"


def entries_of(text: str | None, event: str) -> list[Json]:
    if text is None or not text.strip():
        return []
    return _listed(json_edit.value_of(text, json_edit.parse(text)), event)


def _listed(said: Json, event: str) -> list[Json]:
    hooks = said.get("hooks") if isinstance(said, dict) else None
    listed = hooks.get(event) if isinstance(hooks, dict) else None
    return listed if isinstance(listed, list) else []


def snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


# --- Files ----------------------------------------------------------------------------------------


def _bytes(path: Path) -> bytes | None:
    """None also for a link to nothing: writing creates its target."""
    with storage_errors(f"read {path}"):
        try:
            return read_file(os.path.realpath(path))
        except FileNotFoundError:
            return None


def text_of(path: Path) -> str | None:
    found = _bytes(path)
    if found is not None and found.startswith(BOM_UTF8):
        raise UsageError(
            f"{path} begins with a byte order mark (BOM); nothing was changed.",
            hint="Save it as UTF-8 without one, and try again.",
        )
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8; nothing was changed.") from None


def _changed(
    path: Path, new: str | None, *, replacing: Callable[[str], bool] = lambda _: True
) -> Sequence[Rewrite]:
    old = text_of(path)
    if old is not None and not replacing(old):
        raise UsageError(
            f"{path} is not a file of Holdfast's; nothing was changed.",
            hint="Move it away, and try again.",
        )
    if old == new:
        return ()
    if old is not None and path.stat().st_nlink > 1:
        raise UsageError(
            f"{hard_linked(path)}; nothing was changed.",
            hint="Replace one of the names with a symbolic link, and try again.",
        )
    folders: list[str] = []
    for folder in (path.parent, *path.parent.parents):
        if folder.is_dir():
            break
        folders.insert(0, str(folder))
    made = tuple(folders) if new is not None else ()
    was = None if old is None else old.encode()
    return [rewrite(str(path), was, None if new is None else new.encode(), folders=made)]
