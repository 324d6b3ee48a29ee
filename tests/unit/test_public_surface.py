"""The names that a user of the library may rely on, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import holdfast

PUBLIC = [
    "Advice",
    "AgentSessions",
    "Alert",
    "AsyncGuard",
    "AsyncSessions",
    "BudgetExceededError",
    "Budgets",
    "Caps",
    "Checkpoint",
    "EndReason",
    "Guard",
    "GuardOptions",
    "Hit",
    "HoldfastError",
    "Inventory",
    "Level",
    "Limits",
    "MaintenanceResult",
    "Message",
    "NotCaptured",
    "OnReset",
    "Plan",
    "Policy",
    "Price",
    "Prices",
    "Recorder",
    "Relation",
    "Report",
    "Rollback",
    "Rules",
    "Run",
    "Session",
    "SessionFilter",
    "SessionLimits",
    "SessionOptions",
    "SessionOrder",
    "Sessions",
    "TakeOutcome",
    "Taking",
    "Thresholds",
    "Tokens",
    "Transcript",
    "__version__",
    "apply",
    "archive_sessions",
    "delete_sessions",
    "garbage_collect",
    "maintain",
    "maintain_in_background",
    "open_checkpoints",
    "open_home",
    "open_sessions",
    "plan",
    "prune_checkpoints",
    "prune_sessions",
    "restore_sessions",
    "rollback",
    "undo",
    "undo_latest",
]


def test_the_public_names_are_these() -> None:
    assert holdfast.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(holdfast, name) is not None


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, holdfast; print([m for m in sys.modules if m.startswith('holdfast.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_library_user_pays_for_no_terminal() -> None:
    code = (
        "import sys, holdfast; holdfast.open_sessions; print({'click', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
