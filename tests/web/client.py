"""The page in this process, asked as a browser asks: with the cookie, Origin and the form token."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

from starlette.testclient import TestClient

from holdfast.api.machine import Machine as Homes
from holdfast.web import server
from holdfast.web.child_process import Children
from holdfast.web.query_threads import QueryThreads
from holdfast.web.site import Site
from tests.cli.machine import Machine

PORT = 7877
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"


class Answer:
    """What came back."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        self.status = status
        self.text = text
        self.headers = headers

    @property
    def place(self) -> str:
        """Where a redirect leads."""
        return self.headers["location"]

    @property
    def words(self) -> str:
        """What a person reads, without the tags."""
        return " ".join(re.sub(r"<[^>]*>", " ", self.text).split())

    def __repr__(self) -> str:
        return f"<{self.status} {self.words[:2000]}>"


class Web:
    """A page with its own server parts. `stranger` has no cookie. With `forks` it asks homes in
    child processes, as a real server does; then nothing here may have one of them open."""

    def __init__(
        self,
        machine: Machine,
        *,
        read_only: bool = False,
        beyond: bool = False,
        names: Sequence[str] = (),
        stranger: bool = False,
        forks: bool = False,
    ) -> None:
        environ = machine.env()

        def homes(command: str) -> Homes:
            return Homes(machine.user, environ=environ, overrides=environ, command=command)

        self.gate = server.Gate(
            keys=server.Keys(),
            opened=server.OpenedOnce(),
            port=PORT,
            names=names,
            beyond=beyond,
            read_only=read_only,
        )
        self.site: Site = server.site(
            QueryThreads(homes, time.time, Children(forks=forks)),
            self.gate,
            clock=time.time,
            version="0",
            user_home=machine.user,
        )
        self.client = TestClient(
            server.application(self.site), base_url=ORIGIN, follow_redirects=False
        )
        if not stranger:
            self.client.cookies.set(self.gate.cookie_name, self.gate.keys.cookie)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.site.close()

    def get(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        address = f"{path}?{urlencode(params)}" if params else path
        found = self.client.get(address, headers=dict(headers or {}))
        return Answer(found.status_code, found.text, found.headers)

    def ok(self, path: str) -> Answer:
        """A page that is there; of a run, its report."""
        if (job := self.site.jobs.get(path.removeprefix("/jobs/"))) is not None:
            assert job.wait(60)
        answer = self.get(path)
        assert answer.status == 200, answer
        return answer

    def send(self, path: str, name: str, content: bytes, *, token: str | None = None) -> Answer:
        """A form with a file in it."""
        found = self.client.post(
            path,
            data={"form_token": self.gate.keys.form if token is None else token},
            files={"plan": (name, content, "application/json")},
            headers={"origin": ORIGIN},
        )
        return Answer(found.status_code, found.text, found.headers)

    def post(
        self,
        path: str,
        data: Mapping[str, str | Sequence[str]] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
    ) -> Answer:
        sent: dict[str, str | list[str]] = {
            name: value if isinstance(value, str) else list(value)
            for name, value in (data or {}).items()
        }
        if token:
            sent["form_token"] = self.gate.keys.form
        found = self.client.post(path, data=sent, headers={"origin": ORIGIN, **(headers or {})})
        self._wait(found.headers.get("location", ""))
        return Answer(found.status_code, found.text, found.headers)

    def _wait(self, place: str) -> None:
        """A busy machine takes its time; the server itself waits a second for a job."""
        if place.startswith("/jobs/"):
            job = self.site.jobs.get(place.removeprefix("/jobs/"))
            assert job is not None
            assert job.wait(60)
