"""[archive]: where archived sessions are kept, and for how long."""

from __future__ import annotations

from holdfast.config.key import MEGABYTE, key
from holdfast.config.kinds import DAYS, MEGABYTES, Choice, Endpoint, Folder, StoreUrl, Word
from holdfast.policy.rules import DAY, Caps, Limits, Rules
from holdfast.value import dataclass

ZSTD = "zstd"
GZIP = "gzip"


def limits(retention_days: float, max_total_size_mb: int) -> Limits:
    """An age limit and a cap, as for every kind of archive; 0 turns one off."""
    return Limits(
        rules=Rules(max_age=retention_days * DAY or None),
        caps=Caps(max_bytes=max_total_size_mb * MEGABYTE or None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """[archive]."""

    folder: str = key(
        Folder(),
        "",
        'Where archived sessions are kept: an absolute path, or one inside the home. "" means',
        "the folder archive/ of the home.",
    )
    url: str = key(
        StoreUrl(),
        "",
        'An object store in place of a folder: "s3://bucket/prefix", "gs://..." or "az://...".',
        "Many machines may share it. Keys and passwords never go here. Needs the extra `objects`.",
    )
    endpoint: str = key(
        Endpoint(),
        "",
        'The address of an S3 service that is not AWS: "https://minio.example:9000".',
        '"" means the default of the service, or AWS_ENDPOINT_URL.',
    )
    region: str = key(Word(), "", 'The region of the bucket. "" means AWS_REGION, or us-east-1.')
    profile: str = key(
        Word(),
        "",
        "A profile in the AWS configuration files that has the credentials. Needs boto3. Without",
        "one, they come from the environment, or from the machine.",
    )
    codec: str = key(
        Choice(ZSTD, GZIP), ZSTD, 'How archived sessions are compressed: "zstd" or "gzip".'
    )
    retention_days: float = key(
        DAYS,
        0,
        "Maintenance removes sessions archived more than this many days ago. 0 keeps them for",
        "ever.",
    )
    max_total_size_mb: int = key(
        MEGABYTES,
        0,
        "The most that the archive may take, in MB of 1,000,000 bytes. 0 means no limit.",
    )

    def limits(self) -> Limits:
        """Which archived sessions stay; empty if all do."""
        return limits(self.retention_days, self.max_total_size_mb)
