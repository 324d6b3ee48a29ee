"""The names that a user of the library may rely on, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys

import holdfast

PUBLIC = [
    "AgentSessions",
    "Alert",
    "AsyncGuard",
    "AsyncSessions",
    "BudgetExceededError",
    "Budgets",
    "Guard",
    "HoldfastError",
    "Home",
    "HomePlan",
    "HomeReport",
    "Level",
    "Machine",
    "Message",
    "Recorder",
    "Relation",
    "Session",
    "SessionFilter",
    "TakeOutcome",
    "Tokens",
    "machine",
    "maintain",
    "maintain_in_background",
    "open",
    "__version__",
]


def test_the_public_names_are_these() -> None:
    assert holdfast.__all__ == PUBLIC
    assert set(PUBLIC) <= set(dir(holdfast))
    assert not hasattr(holdfast, "open_sessions")
    for name in PUBLIC:
        assert getattr(holdfast, name) is not None


def test_the_errors_are_at_hand() -> None:
    code = "import holdfast; print(holdfast.errors.UsageError.__mro__[1].__name__)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "HoldfastError\n"


def test_importing_the_package_loads_nothing_of_it() -> None:
    code = "import sys, holdfast; print([m for m in sys.modules if m.startswith('holdfast.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_a_library_user_pays_for_no_terminal() -> None:
    code = "import sys, holdfast; holdfast.Home; print({'click', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
