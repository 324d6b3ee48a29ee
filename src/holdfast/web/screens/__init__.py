"""The screens of the page, one module each. A new screen is one line here."""

from __future__ import annotations

from holdfast.web.screens import (
    archive,
    checkpoints,
    cleanup,
    doctor,
    jobs,
    log,
    log_run,
    overview,
    saved_plan,
    session,
    session_changes,
    sessions,
    settings,
    trash,
    usage,
    vault,
)

SCREENS = tuple(
    module.SCREEN
    for module in (
        overview,
        sessions,
        session,
        session_changes,
        cleanup,
        saved_plan,
        checkpoints,
        usage,
        trash,
        log_run,  # before the operations of a home, whose addresses have the same prefix
        log,
        archive,
        vault,
        doctor,
        settings,
        jobs,
    )
)
