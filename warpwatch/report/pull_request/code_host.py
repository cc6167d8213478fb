"""Talks to the REST interface of GitHub: finds a pull request, and writes its one comment.

Four kinds of calls by the standard library, because the job that makes them holds a token that may write, and each
package in it is one more that could take it. No redirect is followed, which would carry the token to another host.
https://docs.github.com/en/rest/issues/comments, https://docs.github.com/en/rest/pulls/pulls
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Self, TypeVar

import msgspec

from warpwatch.report.pull_request.result import one_line

T = TypeVar("T")
SECONDS = 30.0  # for an answer
WAITS = (2.0, 4.0)  # seconds before another try where the host is busy and names no time
LONGEST_WAIT = 60.0  # seconds
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, *(HTTPStatus(number) for number in (500, 502, 503, 504)))
MOST_PAGES = 50  # of comments, a hundred each
LARGEST = 2**24  # bytes of an answer
NO_NUMBER = "the code host's answer names no number where one belongs"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CURES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "the token is missing or not valid: give GITHUB_TOKEN",
    HTTPStatus.FORBIDDEN: "the token may not write here: the job needs `permissions: pull-requests: write`",
    HTTPStatus.NOT_FOUND: "there is no such repository or pull request, or the token may not see it",
    HTTPStatus.UNPROCESSABLE_ENTITY: "it does not take the text: the pull request may be locked",
}


class Refused(Exception):
    """Raised when the code host refuses or fails; the message says why."""


class _User(msgspec.Struct):
    login: str = ""


class _Comment(msgspec.Struct):
    id: int
    body: str | None = ""
    user: _User | None = None


class _Head(msgspec.Struct):
    sha: str = ""


class _Pull(msgspec.Struct):
    number: int
    head: _Head | None = None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the answer with its status is the caller's."""


_OPENER = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True, kw_only=True)
class Host:
    """Interface of a code host, a repository there, and a token, which is never printed."""

    api: str
    repository: str
    token: str

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.api)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise Refused(f"{self.api} is no https address: the token would be read on its way")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", self.repository):
            raise Refused(f"{self.repository!r} is no repository: give OWNER/NAME")
        if not self.token:
            raise Refused("there is no token: set GITHUB_TOKEN in the step's environment")

    @classmethod
    def of_workflow(cls, repository: str) -> Self:
        """Return the host and the token that a workflow's environment names. Raises Refused."""
        api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
        return cls(api=api, repository=repository, token=os.environ.get("GITHUB_TOKEN", ""))

    def find_pull_request(self, *, head: str, sha: str) -> int | None:
        """Return the number of the open pull request whose newest commit is ``sha``; None where it has moved on.

        ``head``: OWNER:BRANCH. The number is not taken from what the pull request's own jobs left behind, which could
        name another one. Raises Refused.
        """
        if not re.fullmatch(r"[0-9a-f]{40}", sha):
            raise Refused(f"{sha!r} is not a full commit id: give all 40 characters")
        query = urllib.parse.urlencode({"state": "open", "head": head, "per_page": 100})
        pulls = self._ask("GET", f"pulls?{query}", list[_Pull])
        return next((pull.number for pull in pulls if pull.head and pull.head.sha == sha), None)

    def write_comment(self, number: int, marker: str, body: str, author: str) -> str:
        """Write the comment of a pull request that begins with ``marker``, or a new one: "updated" or "written".

        ``author``: whose comment it must be, since anybody may write the marker. Raises Refused.
        """
        for page in range(1, MOST_PAGES + 1):
            comments = self._ask("GET", f"issues/{number}/comments?per_page=100&page={page}", list[_Comment])
            for each in comments:
                if (each.body or "").startswith(marker) and each.user and each.user.login == author:
                    self._ask("PATCH", f"issues/comments/{each.id}", Any, {"body": body})
                    return "updated"
            if len(comments) < 100:
                break
        self._ask("POST", f"issues/{number}/comments", Any, {"body": body})
        return "written"

    def open_pull_request(self, *, title: str, head: str, base: str, body: str) -> int:
        """Open a pull request from the branch ``head`` to ``base``, and return its number. Raises Refused."""
        return self._ask("POST", "pulls", _Pull, {"title": title, "head": head, "base": base, "body": body}).number

    def _ask(self, method: str, path: str, answer: type[T], content: object = None) -> T:
        """Call the interface, again where the host is busy, and return what it answers. Raises Refused."""
        place = path.partition("?")[0]
        request = f"{method} {self.api}/repos/{self.repository}/{place}"
        for wait in (*WAITS, None):
            try:
                with _OPENER.open(self._request(method, path, content), timeout=SECONDS) as reply:
                    return msgspec.json.decode(reply.read(LARGEST), type=answer)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code not in BUSY or wait is None:
                        raise Refused(f"{request}: {_reason(error)}") from None
                    asked = error.headers.get("Retry-After", "")
                    time.sleep(min(LONGEST_WAIT, float(asked)) if asked.isdecimal() else wait)
            except msgspec.ValidationError:
                problem = f"{self.api} answered {place} with no list" if method == "GET" else NO_NUMBER
                raise Refused(f"{problem}: is GITHUB_API_URL right?") from None
            except (OSError, HTTPException, ValueError) as error:
                raise Refused(f"{request}: {one_line(str(error)) or type(error).__name__}") from None
        raise AssertionError("the last try raises")

    def _request(self, method: str, path: str, content: object) -> urllib.request.Request:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "User-Agent": "warpwatch",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        data = None if content is None else json.dumps(content).encode()
        address = f"{self.api.rstrip('/')}/repos/{self.repository}/{path}"
        return urllib.request.Request(address, data=data, headers=headers, method=method)


def _reason(error: urllib.error.HTTPError) -> str:
    """Return status, the host's own words, and what helps."""
    try:
        answer = json.loads(error.read(LARGEST))
        message = one_line(str(answer["message"]))
    except (OSError, HTTPException, ValueError, TypeError, KeyError):
        message = one_line(error.reason or "")
    cure = CURES.get(error.code, "")
    return f"{error.code} {message}{'; ' if cure else ''}{cure}"
