"""Names that people bring along: from older documents, from Hermes, restic, docker and git.

Each is answered with the name that it has here. The only list of them: commands, options, keys of
the configuration. docs/old-names.md shows it, and a test compares the two.
"""

from __future__ import annotations

#: By the group that the command was looked for in; "" is the top.
COMMANDS: dict[str, dict[str, str]] = {
    "": {
        "session": "sessions",
        "checkpoint": "checkpoints",
        "list": "sessions list",
        "ls": "sessions list",
        "show": "sessions show",
        "search": "sessions search",
        "stats": "sessions stats",
        "df": "status",
        "prune": "sessions prune",
        "forget": "sessions prune",
        "gc": "sessions gc",
        "clean": "sessions gc",
        "cleanup": "maintain",
        "archive": "sessions archive",
        "restore": "sessions restore",
        "export": "sessions export",
        "import": "sessions import",
        "delete": "sessions delete",
        "rm": "sessions delete",
        "rollback": "checkpoints restore",
        "snapshot": "checkpoints take",
        "snapshots": "checkpoints list",
        "backup": "checkpoints take",
        "take": "checkpoints take",
        "diff": "checkpoints diff",
        "verify": "checkpoints verify",
        "fsck": "checkpoints verify",
        "check": "doctor",
        "repair": "doctor --repair",
        "history": "log",
        "revert": "undo",
        "optimize": "maintain",
        "vacuum": "maintain",
    },
    "sessions": {
        "ls": "sessions list",
        "browse": "sessions list",
        "rm": "sessions delete",
        "remove": "sessions delete",
        "clean": "sessions gc",
        "cleanup": "sessions gc",
        "purge": "sessions prune",
        "forget": "sessions prune",
        "optimize": "maintain",
        "unpin": "sessions pin --off",
        "unarchive": "sessions restore",
        "title": "sessions rename",
    },
    "checkpoints": {
        "ls": "checkpoints list",
        "snapshots": "checkpoints list",
        "create": "checkpoints take",
        "save": "checkpoints take",
        "snapshot": "checkpoints take",
        "rollback": "checkpoints restore",
        "revert": "checkpoints restore",
        "gc": "checkpoints prune",
        "cleanup": "checkpoints prune",
        "forget": "checkpoints prune",
        "check": "checkpoints verify",
        "fsck": "checkpoints verify",
        "rename": "checkpoints name",
        "unpin": "checkpoints pin --off",
    },
    "trash": {"clear": "trash empty", "ls": "trash list", "restore": "undo"},
    "config": {"validate": "config check", "print": "config show", "create": "config init"},
}

#: By command; "" is any. A name of this table that is an option of the command is that option.
OPTIONS: dict[str, dict[str, str]] = {
    "sessions prune": {
        "--keep": "--keep-last",
        "--max-size-mb": "--max-total-size 500MB",
        "--max-total-size-mb": "--max-total-size 500MB",
        "--db-only": "--no-files",
        "--sessions-only": "--no-files",
    },
    "sessions gc": {
        "--days": "--trivial-days",
        "--older-than": "--trivial-days",
        "--min-messages": "--trivial-max",
        "--max-messages": "--trivial-max",
    },
    "checkpoints prune": {
        "--days": "--retention-days",
        "--older-than": "--retention-days",
        "--max-total-size-mb": "--max-total-size 500MB",
        "--max-checkpoints": "--max-snapshots",
        "--no-delete-orphans": "--keep-orphans",
    },
    "checkpoints take": {"--message": "--reason", "-m": "--reason"},
    "": {
        "--days": "--older-than 30d",
        "--older-than-days": "--older-than 30d",
        "--retention-days": "--older-than 30d",
        "--before": "--older-than",
        "--force": "--yes",
        "-f": "--yes",
        "--assume-yes": "--yes",
        "--no-confirm": "--yes",
        "--preview": "--dry-run",
        "--simulate": "--dry-run",
        "--what-if": "--dry-run",
        "--hermes-home": "--home",
        "--root": "--home",
        "--permanent": "--now",
        "--verbose": "--debug",
    },
}

#: By table. A name of this list that is a key there is that key.
KEYS: dict[str, dict[str, str]] = {
    "sessions": {
        "max_age_days": "retention_days",
        "prune_days": "retention_days",
        "older_than_days": "retention_days",
        "max_messages_per_session": "max_messages",
    },
    "checkpoints": {
        "max_size_mb": "max_total_size_mb",
        "max_checkpoints": "max_snapshots",
        "max_file_mb": "max_file_size_mb",
    },
}
