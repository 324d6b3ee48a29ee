"""The agents whose homes Holdfast knows: one format each, loaded when one of its homes is found."""

from __future__ import annotations

import errno
import os
from functools import cache
from importlib import import_module

from holdfast.homes.kind import Kind
from holdfast.value import replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Protocol

    from holdfast.homes.options import HomeOptions
    from holdfast.model.part import Transcript
    from holdfast.ports.formats import Format, TranscriptReader
    from holdfast.ports.home import Home
    from holdfast.ports.runs import Clock

    class OwnFormat(Format, TranscriptReader, Protocol):
        """One of our own formats: it also reads files outside a home, and proves a home."""

        def is_proven(self, root: Path) -> bool: ...

        def is_emptied(self, root: Path) -> bool: ...


STATE = ".holdfast"
#: If more names match a sign's pattern, only this many are checked.
_MOST_NAMES = 100


def open_home_of(form: Format, root: Path, clock: Clock, options: HomeOptions) -> Home:
    from holdfast.homes.foreign.home import FormatHome  # noqa: PLC0415 - most homes are ours

    return FormatHome(root, form, clock=clock, options=options)


def _kind(place: str, agent: str, folder: str, environment: str, signs: tuple[str, ...]) -> Kind:
    """Return the kind of an agent's home, named after the module of its format.

    `place` is the module and class of the format. A home of this kind has at least one of the paths
    in `signs`. Only for a folder that has one is the format loaded, to look more closely.
    """
    module, _, made_by = place.partition(":")

    @cache
    def form() -> OwnFormat:
        made: OwnFormat = getattr(import_module(f"holdfast.homes.agents.{module}"), made_by)()
        return made

    def recognise(root: Path) -> bool:
        return any(_has(root, sign) for sign in signs) and form().recognise(root)

    def is_proven(root: Path) -> bool:
        return form().is_proven(root)

    def is_emptied(root: Path) -> bool:
        return form().is_emptied(root)

    def transcripts(path: Path) -> Iterator[Transcript] | None:
        return form().transcripts(path)

    def opened(root: Path, clock: Clock, options: HomeOptions) -> Home:
        return open_home_of(form(), root, clock, options)

    return Kind(
        name=module.replace("_", "-"),
        agent=agent,
        default_folder=folder,
        environment=environment,
        recognise=recognise,
        is_proven=is_proven,
        is_emptied=is_emptied,
        open=opened,
        state=lambda root: root / STATE,
        transcripts=transcripts,
    )


def _has(root: Path, sign: str) -> bool:
    """True if a folder has a sign: a path below it, with at most one `*` at the end of a name."""
    before, star, after = sign.partition("*")
    if not star:
        try:
            os.stat(f"{root}/{sign}")  # noqa: PTH116 - runs for every agent, at each start
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return False
        return True
    folder, _, start = f"{root}/{before}".rpartition("/")
    try:
        names = os.listdir(folder)  # noqa: PTH208 - runs for every home, at each start
    except OSError:
        return False
    found = [name for name in names if name.startswith(start)][:_MOST_NAMES]
    return any(os.path.exists(f"{folder}/{name}{after}") for name in found)  # noqa: PTH110


def _around_logs(folder: str) -> str:
    """The home of gptme, if the variable names the folder `logs` inside it."""
    above, _, name = folder.rstrip("/").rpartition("/")
    return above if name == "logs" and above.endswith("/gptme") else folder


AGENTS = (
    # Before Claude Code, whose layout it adopted.
    _kind(
        "qwen:Qwen",
        "Qwen Code",
        ".qwen",
        "QWEN_HOME",
        ("projects/*/chats", "usage_record.jsonl", "output-language.md", "tip_history.json"),
    ),
    _kind("claude_code:ClaudeCode", "Claude Code", ".claude", "CLAUDE_CONFIG_DIR", ("projects",)),
    _kind(
        "codex:Codex",
        "Codex",
        ".codex",
        "CODEX_HOME",
        ("state_5.sqlite", "sessions", "archived_sessions"),
    ),
    _kind(
        "gemini:Gemini",
        "Gemini CLI",
        ".gemini",
        "",
        ("tmp/*/chats", "projects.json", "state.json", "settings.json"),
    ),
    _kind("cline:Cline", "Cline", ".cline/data", "CLINE_DATA_DIR", ("db/sessions.db",)),
    _kind("copilot:Copilot", "Copilot CLI", ".copilot", "COPILOT_HOME", ("session-state",)),
    replace(
        _kind("aider:Aider", "aider", ".aider", "", (".aider.chat.history.md", "installs.json")),
        state=lambda root: root / ".aider.holdfast",
        in_projects=".aider.chat.history.md",
    ),
    # Before OpenCode: it is a fork, and its database has everything that OpenCode's has.
    _kind("kilo:Kilo", "Kilo", ".local/share/kilo", "", ("kilo.db",)),
    _kind("opencode:OpenCode", "OpenCode", ".local/share/opencode", "", ("opencode.db",)),
    replace(
        _kind(
            "goose:Goose",
            "Goose",
            ".local/share/goose",
            "GOOSE_PATH_ROOT",
            ("sessions/sessions.db",),
        ),
        named=lambda root: f"{root}/data",
    ),
    _kind("vibe:Vibe", "Mistral Vibe", ".vibe", "VIBE_HOME", ("logs/session",)),
    _kind(
        "kimi_code:KimiCode",
        "Kimi Code",
        ".kimi-code",
        "KIMI_CODE_HOME",
        ("session_index.jsonl", "workspaces.json", "device_id"),
    ),
    replace(
        _kind(
            "continue_cli:Continue", "Continue", ".continue", "CONTINUE_GLOBAL_DIR", ("sessions",)
        ),
        name="continue",  # `continue` is a keyword, so the module has another name
    ),
    _kind("droid:Droid", "droid", ".factory", "", ("sessions",)),
    _kind(
        "openhands:OpenHands",
        "OpenHands",
        ".openhands",
        "OPENHANDS_PERSISTENCE_DIR",
        ("conversations",),
    ),
    _kind("pi:Pi", "pi", ".pi/agent", "PI_CODING_AGENT_DIR", ("sessions",)),
    _kind("openclaw:OpenClaw", "OpenClaw", ".openclaw", "OPENCLAW_STATE_DIR", ("agents",)),
    # Last: a folder of conversations has no file with a fixed name.
    replace(
        _kind(
            "gptme:Gptme",
            "gptme",
            ".local/share/gptme",
            "GPTME_LOGS_HOME",
            ("logs", "*/conversation.jsonl", f"{STATE}/index"),
        ),
        named=_around_logs,
    ),
)
