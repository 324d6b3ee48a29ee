"""How to open a home: the configured options for its sessions, its archive and its vault."""

from __future__ import annotations

from holdfast.model.checkpoint import MAX_BYTES
from holdfast.value import dataclass, field, replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.config.settings import Settings
    from holdfast.policy.lifecycle import SessionOptions

#: The folder of the vault in a home.
VAULT = "vault"
#: The archive folder of a home whose configuration does not name one.
USUAL_ARCHIVE = "archive"
_USUAL_CODEC = "zstd"
_HOUR = 3_600.0
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """Where and how sessions are archived. An empty `folder` is the default, `archive/` next to the
    configuration; a relative one starts there too. With a `url` the archive is an object store that
    homes share: each home uses its own name there, or `member`."""

    folder: str = ""
    url: str = ""
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    member: str = ""
    codec: str = _USUAL_CODEC


def archive_folder(state: Path, options: ArchiveOptions) -> Path:
    """The archive folder of a home. It need not exist."""
    return state / (options.folder or USUAL_ARCHIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultOptions:
    """Whether second names of sessions are kept; how many seconds after its agent deleted it a
    session is compressed; and where it then goes: to the folder of the vault, or to a `url`."""

    enabled: bool = False
    cold_after: float = 7 * _DAY
    cold: ArchiveOptions = field(default_factory=ArchiveOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeOptions:
    """`idle`: how long a file without a session counts as in use after it was touched.
    `abandoned_after`: how long a session whose process is gone must have been idle before it is
    ended, or can be deleted by id without an end. `checkpoint_bytes`: the cap on the checkpoint
    store, or None."""

    idle: float = _DAY
    abandoned_after: float = _DAY
    checkpoint_bytes: int | None = None
    #: The address of a store that machines share; "" for the file in the home.
    store: str = ""
    #: How long another machine may be silent before its processes count as dead; 0 is unlimited.
    machine_silence: float = 30 * _DAY
    archive: ArchiveOptions = field(default_factory=ArchiveOptions)
    vault: VaultOptions = field(default_factory=VaultOptions)

    def living_by(self, options: SessionOptions) -> HomeOptions:
        """The same with the session options of a host."""
        return replace(self, abandoned_after=options.abandoned_after or _DAY)

    @classmethod
    def of(cls, settings: Settings) -> HomeOptions:
        archive = ArchiveOptions(
            folder=settings.archive.folder,
            url=settings.archive.url,
            endpoint=settings.archive.endpoint,
            region=settings.archive.region,
            profile=settings.archive.profile,
            codec=settings.archive.codec,
        )
        return cls(
            idle=settings.sessions.idle_hours * _HOUR,
            # 0 turns ending off; deleting a session by id still waits for a day.
            abandoned_after=settings.sessions.abandoned_hours * _HOUR or _DAY,
            checkpoint_bytes=settings.checkpoints.max_bytes,
            store=settings.store.url,
            machine_silence=settings.store.machine_silence,
            archive=archive,
            vault=VaultOptions(
                enabled=settings.vault.enabled,
                cold_after=settings.vault.cold_days * _DAY,
                cold=replace(archive, folder="", url=_apart(settings.vault.url, archive.url)),
            ),
        )


def _apart(url: str, archive: str) -> str:
    """Keep vault bundles apart from archived sessions if both are configured to the same URL."""
    return f"{url}/{VAULT}" if url and url == archive else url


USUAL = HomeOptions()
#: The options for a home without a configuration.
UNCONFIGURED = HomeOptions(checkpoint_bytes=MAX_BYTES)
