"""The types that methods of the API return, for the annotations of callers."""

from typing import TYPE_CHECKING

from holdfast.policy.remedy import Freeable, Remedy
from holdfast.policy.remedy import together as freeable_together
from holdfast.services.checkpoint_status import CheckpointStatus
from holdfast.services.checkpoint_watch import Step as WatchStep
from holdfast.services.doctor import Diagnosis
from holdfast.services.exchange.session_export import ExportReport
from holdfast.services.exchange.session_import import ImportReport
from holdfast.services.maintenance_steps import StepPlan
from holdfast.services.stats import HomeStats
from holdfast.services.status import CheckpointCount, HomeStatus
from holdfast.spine.undo import Foreseen
from holdfast.spine.undo_edit import Edited

if TYPE_CHECKING:  # it takes 10 ms to import, and only the API constructs one
    from holdfast.services.exchange.redactor import Redactor

__all__ = [
    "CheckpointCount",
    "CheckpointStatus",
    "Diagnosis",
    "Edited",
    "ExportReport",
    "Foreseen",
    "Freeable",
    "HomeStats",
    "HomeStatus",
    "ImportReport",
    "Redactor",
    "Remedy",
    "StepPlan",
    "WatchStep",
    "freeable_together",
]
