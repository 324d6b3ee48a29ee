"""The commented file that `holdfast config init` writes."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.config.key import Key
from holdfast.config.set_key import toml
from holdfast.config.settings import (
    BY_TABLE,
    GUARD,
    PRICES,
    SESSIONS,
    SOURCE,
    TABLES,
    TOP,
    TRANSCRIPTS,
)

_INTRODUCTION = f"""\
# Settings of Holdfast for this home.
#
# Every key is optional. The values below are the defaults; they are commented out so that a later
# version can improve them. To change one, remove the "# " before it and edit the value. What is
# indented is an example. Environment variables override this file; their names are given with each
# key. Check what you wrote with: holdfast config check
#
# The lines in [brackets] are not commented out: each begins a section, and a key belongs to the
# section above it. So edit a key where it stands. A key added at the end of the file would belong
# to the last section, and a second [{SESSIONS}] is an error. Or use: holdfast config set KEY VALUE
#
# A session stays as long as any rule (retention_days, keep_...) keeps it. With no rule at all,
# every session stays.
"""

# Indented, so that they do not look like one of the keys above.
_EXAMPLES = {
    SESSIONS: f"""\
# A source may have limits of its own: cli, telegram, cron, and so on. It takes the rules
# (retention_days, keep_...) that it does not set from [{SESSIONS}], but not the limits
# (max_total_size_mb, max_count), which here apply to this source alone. For example:
#
#     [{SESSIONS}.{SOURCE}.cron]
#     retention_days = 7
#     keep_last = 10
#     max_total_size_mb = 100
""",
    TRANSCRIPTS: """\
# A source may differ from the default. For example:
#
#     telegram = "jsonl-synced"
""",
    GUARD: f"""\
# A source may have its own limits. Session limits that it does not set come from [{GUARD}]; its
# daily limits (daily_tokens, daily_cost) apply to this source alone. For example:
#
#     [{GUARD}.{SOURCE}.cron]
#     max_tokens = 200000
#     max_iterations = 50
#     daily_cost = 2.5
""",
    PRICES: """\
# What a million tokens cost in US dollars, by the name of the model. Without a line here the cost
# of a model is unknown, unless the agent reports it. A name that ends in * stands for every model
# that begins that way; the longest match counts. Cached tokens cost as much as input unless they
# have a price. These are not the prices of any model:
#
#     "some-model-4" = { input = 3.0, output = 15.0, cached = 0.3 }
#     "some-model-*" = { input = 1.0, output = 5.0 }
#     "local-*" = { input = 0, output = 0 }
""",
}


def template() -> str:
    """A config.toml with every key at its default, all of them commented out."""
    return "\n".join((_INTRODUCTION, *_settings(TOP), *(_table(table) for table in TABLES)))


def _table(table: str) -> str:
    parts = [f"[{table}]\n", *_settings(table)]
    if example := _EXAMPLES.get(table):
        parts.append(example)
    return "\n".join(parts)


def _settings(table: str) -> Iterator[str]:
    for key in BY_TABLE[table].values():
        yield "".join(f"# {line}\n" for line in _lines(key))


def _lines(key: Key) -> Iterator[str]:
    yield from key.about
    yield f"Environment: {key.variable}"
    if key.default is not None:
        yield f"{key.name} = {toml(key.default)}"
    elif key.example is not None:
        yield "Not set by default. For example:"
        yield f"    {key.name} = {toml(key.example)}"
