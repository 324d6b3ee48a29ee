"""Addresses of object stores, and how to open them: `s3://bucket/prefix`, `gs://…`, `az://…`.

Credentials come from the usual sources of each service: environment variables, the identity of the
machine, or a named profile. They are never part of an address.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import StorageError, to_install, to_install_extra
from holdfast.value import dataclass

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

S3, GOOGLE, AZURE = "s3", "gs", "az"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Timeouts of requests in seconds, and the number of retries. Large blobs get more time."""

    connect: float = 5.0
    request: float = 30.0
    retries: int = 3
    longest_pause: float = 3.0
    in_all: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An object store. `endpoint` and `region` are those of the service, `profile` one of AWS's
    configuration files; if empty, each is left to the environment."""

    url: str
    endpoint: str = ""
    region: str = ""
    profile: str = ""

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def bucket(self) -> str:
        return self.url.partition("://")[2].partition("/")[0]

    @property
    def prefix(self) -> str:
        return self.url.partition("://")[2].partition("/")[2].strip("/")

    def opened(self, patience: Patience, *, seconds: float) -> ObjectStore:
        """A client whose requests may take `seconds`. It connects on first use."""
        try:
            from obstore.store import AzureStore, GCSStore, S3Store  # noqa: PLC0415 - an extra
        except ImportError:
            raise StorageError(
                f"The archive is at {self.url}: that needs the package obstore.",
                hint=to_install_extra("objects"),
            ) from None
        options: ClientConfig = {
            "connect_timeout": timedelta(seconds=patience.connect),
            "timeout": timedelta(seconds=seconds),
            "user_agent": "holdfast",
        }
        if self.endpoint.startswith("http://"):
            options["allow_http"] = True
        retry: RetryConfig = {
            "max_retries": patience.retries,
            "retry_timeout": timedelta(seconds=patience.in_all),
            "backoff": {
                "init_backoff": timedelta(seconds=patience.longest_pause / 10),
                "max_backoff": timedelta(seconds=patience.longest_pause),
                "base": 2,
            },
        }
        more: dict[str, Any] = {"client_options": options, "retry_config": retry}
        if self.prefix:
            more["prefix"] = self.prefix
        if self.scheme == GOOGLE:
            return GCSStore(self.bucket, **more)
        if self.scheme == AZURE:
            return AzureStore(self.bucket, config=self._set(endpoint=self.endpoint), **more)
        if self.profile:
            more["credential_provider"] = self._from_profile()
        config = self._set(endpoint=self.endpoint, region=self.region)
        return S3Store(self.bucket, config=config, **more)

    def _set(self, **values: str) -> Any:
        return {name: value for name, value in values.items() if value}

    def _from_profile(self) -> Any:
        """The credentials of a profile, from boto3, which supports every kind of profile."""
        try:
            from boto3.session import Session  # noqa: PLC0415 - only for profiles
            from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415
        except ImportError:
            raise StorageError(
                "`profile` of [archive] needs the package boto3.",
                hint=to_install("boto3"),
            ) from None
        try:
            return Boto3CredentialProvider(Session(profile_name=self.profile))
        except Exception as error:  # noqa: BLE001 - botocore has dozens, without a common base
            raise StorageError(
                f"No credentials were found for the profile {self.profile!r} of [archive]: "
                f"{type(error).__name__}.",
                hint="Check `~/.aws/config` and `~/.aws/credentials`.",
            ) from None
