"""Typed settings, from config.toml and the environment, checked as a whole before anything runs."""

from __future__ import annotations

from holdfast.config.checkpoint_settings import CheckpointSettings
from holdfast.config.environment import warnings
from holdfast.config.guard_settings import GuardSettings, GuardSourceSettings, PriceSettings
from holdfast.config.loading import load
from holdfast.config.maintenance_settings import (
    ArchiveSettings,
    MaintenanceSettings,
    NotifySettings,
)
from holdfast.config.session_settings import SessionSettings, SourceSettings
from holdfast.config.settings import CronSettings, Settings, TranscriptSettings
from holdfast.config.template import template

__all__ = [
    "ArchiveSettings",
    "CheckpointSettings",
    "CronSettings",
    "GuardSettings",
    "GuardSourceSettings",
    "MaintenanceSettings",
    "NotifySettings",
    "PriceSettings",
    "SessionSettings",
    "Settings",
    "SourceSettings",
    "TranscriptSettings",
    "load",
    "template",
    "warnings",
]
