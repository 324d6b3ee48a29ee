"""The commented file that `holdfast config init` writes."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.keys import KEYS, SESSIONS, SOURCE, Key
from holdfast.config.kinds import Value

_INTRODUCTION = """\
# Settings of Holdfast for this home.
#
# Every key is optional. The values below are the defaults; they are commented out so that a later
# version can improve them. To change one, remove the "# " before it and edit the value.
# Environment variables override this file; their names are given with each key. Check what you
# wrote with: holdfast config check
#
# A session stays as long as any rule (retention_days, keep_...) keeps it. With no rule at all,
# every session stays.
"""

# Indented, so that it does not look like one of the keys above.
_SOURCE_EXAMPLE = f"""\
# A source may have limits of its own: cli, telegram, cron, and so on. It takes the rules
# (retention_days, keep_...) that it does not set from [{SESSIONS}], but not the bounds
# (max_total_size_mb, max_count), which here hold for this source alone. For example:
#
#     [{SESSIONS}.{SOURCE}.cron]
#     retention_days = 7
#     keep_last = 10
#     max_total_size_mb = 100
"""


def template() -> str:
    """A config.toml with every key at its default, all of them commented out."""
    return "\n".join(
        (
            _INTRODUCTION,
            *(_setting(key) for key in KEYS if len(key.path) == 1),
            f"[{SESSIONS}]\n",
            *(_setting(key) for key in KEYS if key.path[0] == SESSIONS),
            _SOURCE_EXAMPLE,
        )
    )


def _setting(key: Key) -> str:
    return "".join(f"# {line}\n" for line in _lines(key))


def _lines(key: Key) -> Iterator[str]:
    yield from key.about
    yield f"Environment: {key.variable}"
    yield f"{key.name} = {_toml(key.default)}"


def _toml(value: Value) -> str:
    """Numbers, plain text and lists of it look in TOML as they do in JSON."""
    import json  # noqa: PLC0415 - only `config init` pays for it

    return json.dumps(value)
