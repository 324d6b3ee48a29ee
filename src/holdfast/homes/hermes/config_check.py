"""Checks Hermes's own `config.yaml` and `.env` for keys that Hermes would silently ignore, values
that it would fail on, and an API server without a key. Read-only, and shows no value that could be
a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

import yaml

from holdfast.homes.hermes.config_file import (
    Entry,
    UnreadableError,
    Variables,
    child,
    compose,
    entries,
    is_on,
    line_of,
    read_text,
    scalar,
)
from holdfast.model.checkup import Finding, Severity
from holdfast.model.text import format_count

CHECK = "Hermes's configuration"
CONFIG, ENVIRONMENT = "config.yaml", ".env"

_MOST_TOLD = 20
#: Names that are safe to show. Any other key may be a misplaced secret.
_PLAIN = re.compile(r"[a-z][a-z_]{0,40}")
_EDIT = "Edit {path} and run `holdfast doctor` again. Holdfast never changes this file."

# The valid keys at the root of Hermes's `config.yaml`, collected from releases 0.13.0 to 0.19.0:
# their default configurations, and every other key that they read or write. A key that any release
# knows is accepted, because the file does not tell which release reads it.
_SETTINGS = """
    _config_version agent always_log_local approvals auxiliary base_url bedrock browser
    checkpoints clarify code_execution command_allowlist compression computer_use context
    context_file_max_chars credential_pool_strategies cron curator custom_prompt
    custom_providers dashboard delegation desktop display fallback_model fallback_providers
    file_read_max_chars filter_silence_narration gateway goals group_sessions_per_user honcho
    hooks hooks_auto_accept human_delay image_gen kanban known_plugin_toolsets logging lsp
    max_concurrent_sessions max_live_sessions max_turns mcp mcp_discovery_timeout mcp_servers
    memory moa model model_aliases model_catalog multiplex_profiles network onboarding
    openrouter paste_collapse_char_threshold paste_collapse_threshold
    paste_collapse_threshold_fallback personalities platform_hints platform_toolsets platforms
    plugins prefill_messages_file privacy profile_routes prompt_caching provider
    provider_routing providers quick_commands require_mention reset_triggers secrets security
    session_reset sessions skills smart_model_routing streaming stt stt_echo_transcripts
    terminal thread_sessions_per_user timezone tool_loop_guardrails tool_output tools toolsets
    tts unauthorized_dm_behavior updates vertex video_gen voice web worktree worktree_sync
    write_sessions_json x_search
"""
#: Each of these may have a block of its own.
_PLATFORMS = """
    api_server bluebubbles dingtalk discord email feishu google_chat homeassistant irc line local
    matrix mattermost msgraph_webhook ntfy photon qqbot raft relay signal simplex slack sms teams
    telegram webhook wecom wecom_callback weixin whatsapp whatsapp_cloud yuanbao
"""
ROOT_KEYS = frozenset(f"{_SETTINGS} {_PLATFORMS}".split())

#: Hermes passes values with such names on to its environment, and stores a few itself.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def check(root: Path) -> Iterator[Finding]:
    """One finding per problem, or a single one if there are none."""
    config, environment = root.resolve() / CONFIG, root.resolve() / ENVIRONMENT
    found = list(islice(_problems(config, environment), _MOST_TOLD + 1))
    if not found:
        yield Finding(check=CHECK)
    yield from found[:_MOST_TOLD]
    if len(found) > _MOST_TOLD:
        told = format_count(_MOST_TOLD, "problem")
        yield _problem(config, f"there is more; these are the first {told}", line=None)


def _problems(config: Path, environment: Path) -> Iterator[Finding]:
    variables, root = Variables(""), None
    try:
        variables = Variables(read_text(environment) or "")
    except UnreadableError as error:
        yield _problem(environment, error.reason, line=error.line)
    try:
        root = compose(read_text(config) or "")
    except UnreadableError as error:
        meaning = "Hermes cannot load this file, and runs with its defaults or not at all"
        yield _problem(config, f"{error.reason}. {meaning}", line=error.line)
    else:
        yield from _structure(config, root)
    yield from _api_server(config, environment, root, variables)


def _structure(path: Path, root: yaml.Node | None) -> Iterator[Finding]:
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        if not (isinstance(root, yaml.ScalarNode) and scalar(root) in (None, "")):
            reason = "the file is not a list of `key: value` lines. Hermes ignores all of it"
            yield _problem(path, reason, line=line_of(root))
        return
    yield from _keys(path, root)
    for name in ("fallback_providers", "fallback_model"):
        yield from _fallbacks(path, name, child(root, name))
    for where in (["session_reset"], ["gateway", "session_reset"]):
        yield from _reset(path, ".".join(where), child(root, *where))


def _keys(path: Path, root: yaml.Node) -> Iterator[Finding]:
    lines: dict[str, int] = {}
    for entry in entries(root):
        if not is_known(entry.key):
            yield _problem(path, _unknown(entry), line=entry.line)
        elif entry.key in lines:
            reason = f"`{entry.key}` appears twice, first in line {lines[entry.key]}. Hermes uses "
            yield _problem(path, f"{reason}the last one only", line=entry.line)
        lines[entry.key] = entry.line


def is_known(key: str) -> bool:
    return key in ROOT_KEYS or _VARIABLE.fullmatch(key) is not None


def _unknown(entry: Entry) -> str:
    plain = entry.key.strip().lower().replace("-", "_")
    near = get_close_matches(plain, ROOT_KEYS, n=1, cutoff=0.75)
    if near:
        return f"Hermes has no key `{entry.key}`; did you mean `{near[0]}`? Hermes ignores this one"
    named = f" `{entry.key}`" if _PLAIN.fullmatch(entry.key) else " with the name in this line"
    return f"Hermes has no key{named}, and ignores it"


def _fallbacks(path: Path, name: str, node: yaml.Node | None) -> Iterator[Finding]:
    """A mapping, or a list of mappings, each with a provider and a model."""
    if node is None or _is_nothing(node):
        return
    wanted = "`provider: …` and `model: …`"
    listed: list[tuple[str, yaml.Node]]
    if isinstance(node, yaml.MappingNode):
        listed = [(name, node)]
    elif isinstance(node, yaml.SequenceNode):
        listed = [(f"{name}[{place}]", each) for place, each in enumerate(node.value)]
    else:
        reason = f"`{name}` must be a list of entries with {wanted}. Hermes has no fallback now"
        yield _problem(path, reason, line=line_of(node))
        return
    for label, each in listed:
        if not isinstance(each, yaml.MappingNode):
            missing = wanted
        else:
            needed = [key for key in ("provider", "model") if not _has_text(child(each, key))]
            missing = " and ".join(f"`{key}: …`" for key in needed)
        if missing:
            reason = f"`{label}` needs {missing}. Hermes skips this fallback"
            yield _problem(path, reason, line=line_of(each))


def _reset(path: Path, name: str, node: yaml.Node | None) -> Iterator[Finding]:
    minutes = child(node, "idle_minutes")
    if minutes is None or _is_nothing(minutes):
        return
    value = scalar(minutes)
    if isinstance(value, bool) or not isinstance(value, int | float):
        reason = (
            f"`{name}.idle_minutes` must be a number without quotes. The gateway does not start"
        )
        yield _problem(path, reason, line=line_of(minutes))
    elif not value > 0:
        reason = f"`{name}.idle_minutes` must be more than 0. Hermes uses 1440, a day, instead"
        yield _problem(path, reason, line=line_of(minutes))


def _api_server(
    config: Path, environment: Path, root: yaml.Node | None, variables: Variables
) -> Iterator[Finding]:
    places = (("platforms", "api_server"), ("gateway", "platforms", "api_server"), ("api_server",))
    blocks = [child(root, *place) for place in places]
    on = next((each for each in blocks if is_on(scalar(child(each, "enabled")))), None)
    if on is None and not variables.is_on("API_SERVER_ENABLED"):
        return
    in_config = any(_has_text(child(each, "extra", "key")) for each in blocks)
    in_config = in_config or _has_text(child(root, "API_SERVER_KEY"))
    if in_config or variables.is_set("API_SERVER_KEY"):
        return
    yield Finding(
        check=CHECK,
        severity=Severity.WARNING,
        message=_at(environment if on is None else config, None if on is None else line_of(on))
        + ": the API server is on, and there is no API_SERVER_KEY. Anyone who reaches its port can "
        "use this agent",
        advice=f"Set API_SERVER_KEY in {environment}, unless the gateway gets it from its own "
        "environment.",
    )


def _is_nothing(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _has_text(node: yaml.Node | None) -> bool:
    value = scalar(node)
    return value is not None and not isinstance(value, bool) and bool(str(value).strip())


def _problem(path: Path, reason: str, *, line: int | None) -> Finding:
    return Finding(
        check=CHECK,
        severity=Severity.WARNING,
        message=f"{_at(path, line)}: {reason}",
        advice=_EDIT.format(path=path),
    )


def _at(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}, line {line}"
