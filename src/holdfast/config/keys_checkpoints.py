"""The keys of checkpoints: what is captured, and what stays."""

from __future__ import annotations

from holdfast.config.key import CHECKPOINTS, Key
from holdfast.config.kinds import Duration, Flag, Number
from holdfast.config.kinds_text import IgnoreRules

_COUNT = Number(low=0, high=1_000_000)
_SIZE = Number(low=0, high=1_000_000_000)


def _keep(bucket: str, what: str) -> Key:
    return Key(
        path=(CHECKPOINTS, f"keep_{bucket}"),
        kind=_COUNT,
        default=0,
        about=(f"Keep the newest {what}. 0 turns this off.",),
    )


CHECKPOINT_KEYS: tuple[Key, ...] = (
    Key(
        path=(CHECKPOINTS, "enabled"),
        kind=Flag(),
        default=False,
        about=("Whether an agent takes checkpoints by itself, before it changes files.",),
    ),
    Key(
        path=(CHECKPOINTS, "max_snapshots"),
        kind=_COUNT,
        default=20,
        about=(
            "The most checkpoints to keep of each project. 0 is no bound. It holds while an agent",
            "works: the oldest leave the list at once and soon after are in the log and the trash.",
        ),
    ),
    Key(
        path=(CHECKPOINTS, "max_total_size_mb"),
        kind=_SIZE,
        default=500,
        about=(
            "The most that all checkpoints may take on disk, in MB of 1,000,000 bytes. 0 is no",
            "bound. It holds while an agent works, soon after; twice this is never exceeded.",
            "Archives of older layouts push no checkpoint out; a report says if they do not fit.",
        ),
    ),
    Key(
        path=(CHECKPOINTS, "max_file_size_mb"),
        kind=_SIZE,
        default=10,
        about=("Files larger than this many MB are not captured. 0 is no bound.",),
    ),
    Key(
        path=(CHECKPOINTS, "retention_days"),
        kind=Number(low=0, high=36_500, whole=False),
        default=7,
        about=(
            "A project whose last checkpoint is older than this many days goes with all of them.",
            "0 is no rule about age.",
        ),
    ),
    Key(
        path=(CHECKPOINTS, "delete_orphans"),
        kind=Flag(),
        default=True,
        about=(
            "Whether the checkpoints of a project go once its directory is gone. A directory on a",
            "disk that is not mounted is not gone.",
        ),
    ),
    Key(
        path=(CHECKPOINTS, "auto_prune"),
        kind=Flag(),
        default=True,
        about=(
            "Whether maintenance prunes by age, orphans and the keep_... rules, without anybody",
            "asking. max_snapshots and max_total_size_mb hold either way.",
        ),
    ),
    _keep("last", "checkpoints of each project, this many"),
    _keep("hourly", "of each hour, for this many hours that have one"),
    _keep("daily", "of each day, for this many days that have one"),
    _keep("weekly", "of each week, for this many weeks that have one"),
    _keep("monthly", "of each month, for this many months that have one"),
    Key(
        path=(CHECKPOINTS, "keep_within"),
        kind=Duration(),
        default="",
        about=(
            'Keep what is at most this much older than the newest of its project: "12h", "2w".',
            '"" turns this off. With no keep_... rule at all, all stay that the bounds leave.',
        ),
    ),
    Key(
        path=(CHECKPOINTS, "exclude"),
        kind=IgnoreRules(),
        default=(),
        about=(
            "More that is not captured, as in a .gitignore file, for example",
            '["data/", "*.parquet"]. A ! before one captures what the usual rules leave out.',
        ),
    ),
    Key(
        path=(CHECKPOINTS, "hash_all"),
        kind=Flag(),
        default=False,
        about=(
            "Whether every file is read when a checkpoint is taken, compared or restored. Without",
            "it a file counts as unchanged while its size and times are: right, but for programs",
            "that write through a shared memory map. It costs as much as reading the project.",
        ),
    ),
)
