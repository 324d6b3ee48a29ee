"""The keys that may stand at the root of Hermes's `config.yaml`.

Collected from the releases 0.13.0 to 0.19.0: their default configurations and the keys that they
read or write beside those. A key that one of them knows is known; which release reads the file, the
file does not say.
"""

from __future__ import annotations

import re

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
#: Each may have a block of its own.
_PLATFORMS = """
    api_server bluebubbles dingtalk discord email feishu google_chat homeassistant irc line local
    matrix mattermost msgraph_webhook ntfy photon qqbot raft relay signal simplex slack sms teams
    telegram webhook wecom wecom_callback weixin whatsapp whatsapp_cloud yuanbao
"""
ROOT_KEYS = frozenset(f"{_SETTINGS} {_PLATFORMS}".split())

#: Hermes hands values under such names on to its environment, and stores some itself.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def is_known(key: str) -> bool:
    return key in ROOT_KEYS or _VARIABLE.fullmatch(key) is not None
