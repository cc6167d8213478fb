"""Talks to the REST interface of a code host, and keeps the one comment of a pull request up to date there.

By the standard library, because the job that makes these calls holds a token that may write, and each package in it is
one more that could take it. No redirect is followed with the token, which would carry it to another host. ``GitHub``
(github.py) and ``GitLab`` (gitlab.py) have the addresses and the forms of the answers.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from warpwatch.report.pull_request.result import one_line

T = TypeVar("T")
SECONDS = 30.0  # for an answer
WAITS = (2.0, 4.0)  # seconds before another try where the host is busy and names no time
LONGEST_WAIT = 60.0  # seconds
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, *(HTTPStatus(number) for number in (500, 502, 503, 504)))
MOST_PAGES, PAGE = 50, 100  # of a list, and entries of each
LARGEST = 2**24  # bytes of an answer
NO_NUMBER = "the code host's answer names no number where one belongs"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Refused(Exception):
    """Raised when the code host refuses or fails; the message says why. ``status``: of its answer, or 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Comment:
    """Comment at the code host. ``author``: the login of its author; empty where the host does not say."""

    id: int
    body: str
    author: str


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the answer with its status is the caller's."""


_OPENER = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True, kw_only=True)
class Host(ABC):
    """Interface of a code host, a repository there, and a token, which is never printed.

    A host names the variables of its token and of its address, that address's default, the form of a repository's
    name, and what helps where it answers with a status.
    """

    TOKEN: ClassVar[str]
    API: ClassVar[str]
    DEFAULT: ClassVar[str]
    NAME: ClassVar[str]
    FORM: ClassVar[str]
    CURES: ClassVar[Mapping[int, str]]
    HEADERS: ClassVar[Mapping[str, str]] = {}

    api: str
    repository: str
    token: str

    def __post_init__(self) -> None:
        if not _is_safe(self.api):
            raise Refused(f"{self.api} is no https address: the token would be read on its way")
        if not re.fullmatch(self.NAME, self.repository):
            raise Refused(f"{self.repository!r} is not the name of a repository: give {self.FORM}")
        if not self.token:
            raise Refused(f"the token is missing: set {self.TOKEN} in the step's environment")

    @classmethod
    def of_environment(cls, repository: str) -> Self:
        """Return the host and the token that a job's environment names. Raises Refused."""
        api = os.environ.get(cls.API) or cls.DEFAULT
        return cls(api=api, repository=repository, token=os.environ.get(cls.TOKEN, ""))

    @property
    @abstractmethod
    def place(self) -> str:
        """The repository's part of an address."""

    @abstractmethod
    def comments(self, number: int) -> Iterator[Comment]:
        """Yield the comments of a pull request. Raises Refused."""

    @abstractmethod
    def put_comment(self, number: int, body: str, earlier: Comment | None) -> None:
        """Write a comment, or another body of an earlier one. Raises Refused."""

    def find_comment(self, number: int, marker: str, author: str) -> Comment | None:
        """Return the comment that begins with ``marker``, if there is one. Raises Refused.

        ``author``: whose comment it must be, since anybody may write the marker.
        """
        ours = (each for each in self.comments(number) if each.body.startswith(marker) and each.author == author)
        return next(ours, None)

    def write_comment(self, number: int, marker: str, body: str, author: str) -> str:
        """Write the one comment of a pull request: "updated" or "written". Raises Refused."""
        earlier = self.find_comment(number, marker, author)
        self.put_comment(number, body, earlier)
        return "updated" if earlier else "written"

    def pages(self, path: str, answer: type[T]) -> Iterator[T]:
        """Yield the entries of a list, page by page. Raises Refused."""
        for page in range(1, MOST_PAGES + 1):
            entries = self.ask("GET", f"{path}per_page={PAGE}&page={page}", list[answer])  # type: ignore[valid-type]
            yield from entries
            if len(entries) < PAGE:
                break

    def ask(self, method: str, path: str, answer: type[T], content: object = None) -> T:
        """Call the interface, and return what it answers, checked. ``path``: after the host's address. Raises Refused.

        Where the answer is ``bytes``, it is a file, which may lie at an address of its own.
        """
        place = path.partition("?")[0]
        reply = self._call(method, path, content, is_file=answer is bytes)
        if answer is bytes:
            return reply  # type: ignore[return-value]
        try:
            return msgspec.json.decode(reply, type=answer)
        except ValueError:
            problem = f"{self.api} answered {place} with no list" if method == "GET" else NO_NUMBER
            raise Refused(f"{problem}: is {self.API} right?") from None

    def _call(self, method: str, path: str, content: object, *, is_file: bool) -> bytes:
        """Call the interface, again where the host is busy, and return the bytes of its answer. Raises Refused."""
        request = self._request(method, path, content)
        named = f"{method} {request.full_url.partition('?')[0]}"
        for wait in (*WAITS, None):
            try:
                with _OPENER.open(request, timeout=SECONDS) as reply:
                    return bytes(reply.read(LARGEST))
            except urllib.error.HTTPError as error:
                with error:
                    place = error.headers.get("Location", "") if is_file and error.code // 100 == 3 else ""
                    if place and _is_safe(place):
                        request, is_file = urllib.request.Request(place), False  # without the token
                        continue
                    if error.code not in BUSY or wait is None:
                        raise Refused(f"{named}: {self._reason(error)}", error.code) from None
                    asked = error.headers.get("Retry-After", "")
                    time.sleep(min(LONGEST_WAIT, float(asked)) if asked.isdecimal() else wait)
            except (OSError, HTTPException, ValueError) as error:
                raise Refused(f"{named}: {one_line(str(error)) or type(error).__name__}") from None
        raise Refused(f"{named}: the file was at no address")

    def _request(self, method: str, path: str, content: object) -> urllib.request.Request:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "User-Agent": "warpwatch",
            **self.HEADERS,
        }
        data = None if content is None else json.dumps(content).encode()
        return urllib.request.Request(f"{self.api.rstrip('/')}/{path}", data=data, headers=headers, method=method)

    def _reason(self, error: urllib.error.HTTPError) -> str:
        """Return status, the host's own words, and what helps."""
        try:
            answer = json.loads(error.read(LARGEST))
            message = one_line(str(answer["message"]))
        except (OSError, HTTPException, ValueError, TypeError, KeyError):
            message = one_line(error.reason or "")
        cure = self.CURES.get(error.code, "")
        return f"{error.code} {message}{'; ' if cure else ''}{cure}"


def _is_safe(address: str) -> bool:
    """Tell whether nobody on the way reads what is sent to an address."""
    parts = urllib.parse.urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
