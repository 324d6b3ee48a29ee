"""What to keep of checkpoints, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.errors import UsageError
from holdfast.policy.rules import DAY, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """The rules count inside each project; without a rule all stay that the bounds leave.

    A project that nobody touched for `stale_after` seconds goes whole, and so does one whose
    directory is gone, unless `keep_orphans`. The same holds for single repositories of an older
    layout; archives of these wait until somebody asks for it with `legacy`. `max_count` bounds each
    project, `max_bytes` all that lies in the checkpoint folder but older layouts. None is no bound.
    `trash_age` is how long undo copies stay; None leaves the trash alone. With `use_trash` off,
    removals are final.
    """

    rules: Rules = field(default_factory=Rules)
    stale_after: float | None = None
    max_count: int | None = None
    max_bytes: int | None = None
    keep_orphans: bool = False
    legacy: bool = False
    trash_age: float | None = 7 * DAY
    use_trash: bool = True

    def __post_init__(self) -> None:
        if self.rules.max_age is not None:
            raise UsageError("A checkpoint has no age of its own: its project goes whole.")
        for name in ("stale_after", "max_count", "max_bytes"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UsageError(f"{name} cannot be {value}: it must be 0 or more.")

    def upkeep_only(self) -> CheckpointPolicy:
        """One by which nothing goes but what has gone already: old trash, and space."""
        return CheckpointPolicy(
            keep_orphans=True, trash_age=self.trash_age, use_trash=self.use_trash
        )
