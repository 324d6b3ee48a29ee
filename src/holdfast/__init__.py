"""Holdfast keeps what AI agents made and bounds what they leave behind.

The names below are the public surface. They are imported on first use, so that
`holdfast --version` does not pay for what it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast.errors import BudgetExceededError as BudgetExceededError
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.guard.async_guard import AsyncGuard as AsyncGuard
    from holdfast.guard.guard import Guard as Guard
    from holdfast.homes.agent_sessions import AgentSessions as AgentSessions
    from holdfast.homes.background import maintain_in_background as maintain_in_background
    from holdfast.homes.embedded import open_sessions as open_sessions
    from holdfast.homes.embedded_checkpoints import open_checkpoints as open_checkpoints
    from holdfast.homes.library import archive_sessions as archive_sessions
    from holdfast.homes.library import delete_sessions as delete_sessions
    from holdfast.homes.library import garbage_collect as garbage_collect
    from holdfast.homes.library import prune_checkpoints as prune_checkpoints
    from holdfast.homes.library import prune_sessions as prune_sessions
    from holdfast.homes.library import restore_sessions as restore_sessions
    from holdfast.homes.library import undo as undo
    from holdfast.homes.library import undo_latest as undo_latest
    from holdfast.homes.maintenance import maintain as maintain
    from holdfast.homes.registry import open_home as open_home
    from holdfast.model.alert import Alert as Alert
    from holdfast.model.checkpoint import Checkpoint as Checkpoint
    from holdfast.model.checkpoint import NotCaptured as NotCaptured
    from holdfast.model.checkpoint import Rollback as Rollback
    from holdfast.model.checkpoint import TakeOutcome as TakeOutcome
    from holdfast.model.checkpoint import Taking as Taking
    from holdfast.model.guard import Advice as Advice
    from holdfast.model.guard import Level as Level
    from holdfast.model.inventory import Inventory as Inventory
    from holdfast.model.maintenance import MaintenanceResult as MaintenanceResult
    from holdfast.model.plan import Plan as Plan
    from holdfast.model.report import Report as Report
    from holdfast.model.run import Run as Run
    from holdfast.model.session import EndReason as EndReason
    from holdfast.model.session import Hit as Hit
    from holdfast.model.session import Message as Message
    from holdfast.model.session import Relation as Relation
    from holdfast.model.session import Session as Session
    from holdfast.model.session import SessionFilter as SessionFilter
    from holdfast.model.session import SessionOrder as SessionOrder
    from holdfast.model.session import Tokens as Tokens
    from holdfast.policy.budgets import Budgets as Budgets
    from holdfast.policy.budgets import GuardOptions as GuardOptions
    from holdfast.policy.budgets import Thresholds as Thresholds
    from holdfast.policy.lifecycle import OnReset as OnReset
    from holdfast.policy.lifecycle import SessionOptions as SessionOptions
    from holdfast.policy.lifecycle import Transcript as Transcript
    from holdfast.policy.limits import SessionLimits as SessionLimits
    from holdfast.policy.planner import plan as plan
    from holdfast.policy.prices import Price as Price
    from holdfast.policy.prices import Prices as Prices
    from holdfast.policy.rules import Caps as Caps
    from holdfast.policy.rules import Limits as Limits
    from holdfast.policy.rules import Policy as Policy
    from holdfast.policy.rules import Rules as Rules
    from holdfast.services.async_sessions import AsyncSessions as AsyncSessions
    from holdfast.services.recorder import Recorder as Recorder
    from holdfast.services.rollback import rollback as rollback
    from holdfast.services.sessions import Sessions as Sessions
    from holdfast.spine.apply import apply as apply

_ROOMS = {
    "Advice": "holdfast.model.guard",
    "AgentSessions": "holdfast.homes.agent_sessions",
    "Alert": "holdfast.model.alert",
    "AsyncGuard": "holdfast.guard.async_guard",
    "AsyncSessions": "holdfast.services.async_sessions",
    "BudgetExceededError": "holdfast.errors",
    "Budgets": "holdfast.policy.budgets",
    "Caps": "holdfast.policy.rules",
    "Checkpoint": "holdfast.model.checkpoint",
    "EndReason": "holdfast.model.session",
    "Guard": "holdfast.guard.guard",
    "GuardOptions": "holdfast.policy.budgets",
    "Hit": "holdfast.model.session",
    "HoldfastError": "holdfast.errors",
    "Inventory": "holdfast.model.inventory",
    "Level": "holdfast.model.guard",
    "Limits": "holdfast.policy.rules",
    "MaintenanceResult": "holdfast.model.maintenance",
    "Message": "holdfast.model.session",
    "NotCaptured": "holdfast.model.checkpoint",
    "OnReset": "holdfast.policy.lifecycle",
    "Plan": "holdfast.model.plan",
    "Policy": "holdfast.policy.rules",
    "Price": "holdfast.policy.prices",
    "Prices": "holdfast.policy.prices",
    "Recorder": "holdfast.services.recorder",
    "Relation": "holdfast.model.session",
    "Report": "holdfast.model.report",
    "Rollback": "holdfast.model.checkpoint",
    "Rules": "holdfast.policy.rules",
    "Run": "holdfast.model.run",
    "Session": "holdfast.model.session",
    "SessionFilter": "holdfast.model.session",
    "SessionLimits": "holdfast.policy.limits",
    "SessionOptions": "holdfast.policy.lifecycle",
    "SessionOrder": "holdfast.model.session",
    "Sessions": "holdfast.services.sessions",
    "TakeOutcome": "holdfast.model.checkpoint",
    "Taking": "holdfast.model.checkpoint",
    "Thresholds": "holdfast.policy.budgets",
    "Tokens": "holdfast.model.session",
    "Transcript": "holdfast.policy.lifecycle",
    "apply": "holdfast.spine.apply",
    "archive_sessions": "holdfast.homes.library",
    "delete_sessions": "holdfast.homes.library",
    "garbage_collect": "holdfast.homes.library",
    "maintain": "holdfast.homes.maintenance",
    "maintain_in_background": "holdfast.homes.background",
    "open_checkpoints": "holdfast.homes.embedded_checkpoints",
    "open_home": "holdfast.homes.registry",
    "open_sessions": "holdfast.homes.embedded",
    "plan": "holdfast.policy.planner",
    "prune_checkpoints": "holdfast.homes.library",
    "prune_sessions": "holdfast.homes.library",
    "restore_sessions": "holdfast.homes.library",
    "rollback": "holdfast.services.rollback",
    "undo": "holdfast.homes.library",
    "undo_latest": "holdfast.homes.library",
}

__all__ = [
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


def __getattr__(name: str) -> Any:
    module = _ROOMS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
