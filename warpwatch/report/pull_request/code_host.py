"""Talks to the REST interface of GitHub: finds a pull request, and writes its one comment.

Four kinds of calls by the standard library, because the job that makes them holds a token that may write, and each
package in it is one more that could take it. No redirect is followed, which would carry the token to another host.
https://docs.github.com/en/rest/issues/comments, https://docs.github.com/en/rest/pulls/pulls
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any

from warpwatch.report.pull_request.result import one_line

SECONDS = 30.0  # for an answer
TRIES = 3  # where the host is busy
WAIT = 2.0  # seconds before another try, twice as long each time, where the host names no time
LONGEST_WAIT = 60.0  # seconds
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, *(HTTPStatus(number) for number in (500, 502, 503, 504)))
MOST_PAGES = 50  # of comments, a hundred each
LARGEST = 2**24  # bytes of an answer
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CURES = {
    HTTPStatus.UNAUTHORIZED: "the token is missing or not valid: give GITHUB_TOKEN",
    HTTPStatus.FORBIDDEN: "the token may not write here: the job needs `permissions: pull-requests: write`",
    HTTPStatus.NOT_FOUND: "there is no such repository or pull request, or the token may not see it",
    HTTPStatus.UNPROCESSABLE_ENTITY: "it does not take the text: the pull request may be locked",
}


class Refused(Exception):
    """Raised when the code host refuses or fails; the message says why."""


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


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the answer with its status is the caller's."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def find_pull_request(host: Host, *, head: str, sha: str) -> int | None:
    """Return the number of the open pull request whose newest commit is ``sha``; None where it has moved on.

    ``head``: OWNER:BRANCH. The number is not taken from what the pull request's own jobs left behind, which could name
    another one. Raises Refused.
    """
    if not re.fullmatch(r"[0-9a-f]{40}", sha):
        raise Refused(f"{sha!r} is no commit: give all 40 characters")
    query = urllib.parse.urlencode({"state": "open", "head": head, "per_page": 100})
    for pull in _list(host, f"pulls?{query}"):
        if isinstance(pull, dict) and isinstance(pull.get("head"), dict) and pull["head"].get("sha") == sha:
            return _number(pull.get("number"))
    return None


def write_comment(host: Host, number: int, marker: str, body: str, author: str) -> str:
    """Write the comment of a pull request that begins with ``marker``, or a new one; returns "updated" or "written".

    ``author``: whose comment it must be, since anybody may write the marker. Raises Refused.
    """
    for page in range(1, MOST_PAGES + 1):
        comments = _list(host, f"issues/{number}/comments?per_page=100&page={page}")
        for comment in comments:
            if _is_ours(comment, marker, author):
                _ask(host, "PATCH", f"issues/comments/{_number(comment.get('id'))}", {"body": body})
                return "updated"
        if len(comments) < 100:
            break
    _ask(host, "POST", f"issues/{number}/comments", {"body": body})
    return "written"


def open_pull_request(host: Host, *, title: str, head: str, base: str, body: str) -> int:
    """Open a pull request from the branch ``head`` to ``base``, and return its number. Raises Refused."""
    answer = _ask(host, "POST", "pulls", {"title": title, "head": head, "base": base, "body": body})
    return _number(answer.get("number") if isinstance(answer, dict) else None)


def _is_ours(comment: Any, marker: str, author: str) -> bool:
    if not isinstance(comment, dict) or not isinstance(comment.get("user"), dict):
        return False
    return str(comment.get("body", "")).startswith(marker) and comment["user"].get("login") == author


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise Refused("the code host's answer names no number where one belongs: is GITHUB_API_URL right?")
    return value


def _list(host: Host, path: str) -> list[Any]:
    answer = _ask(host, "GET", path)
    if not isinstance(answer, list):
        raise Refused(f"{host.api} answered {path.partition('?')[0]} with no list: is GITHUB_API_URL right?")
    return answer


def _ask(host: Host, method: str, path: str, content: object = None) -> Any:
    """Call the interface, again where the host is busy, and return what it answers. Raises Refused."""
    request = f"{method} {host.api}/repos/{host.repository}/{path.partition('?')[0]}"
    for wait in (*_waits(), None):
        try:
            with _OPENER.open(_request(host, method, path, content), timeout=SECONDS) as answer:
                return json.loads(answer.read(LARGEST))
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in BUSY or wait is None:
                    raise Refused(f"{request}: {_reason(error)}") from None
                time.sleep(_asked_to_wait(error, wait))
        except (OSError, HTTPException, ValueError) as error:
            raise Refused(f"{request}: {one_line(str(error)) or type(error).__name__}") from None
    raise AssertionError("the last try raises")


def _waits() -> Iterator[float]:
    yield from (WAIT * 2**number for number in range(TRIES - 1))


def _request(host: Host, method: str, path: str, content: object) -> urllib.request.Request:
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {host.token}",
        "Content-Type": "application/json",
        "User-Agent": "warpwatch",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if content is None else json.dumps(content).encode()
    address = f"{host.api.rstrip('/')}/repos/{host.repository}/{path}"
    return urllib.request.Request(address, data=data, headers=headers, method=method)


def _asked_to_wait(error: urllib.error.HTTPError, otherwise: float) -> float:
    asked = error.headers.get("Retry-After", "")
    return min(LONGEST_WAIT, float(asked)) if asked.isdecimal() else otherwise


def _reason(error: urllib.error.HTTPError) -> str:
    """Return status, the host's own words, and what helps."""
    try:
        answer = json.loads(error.read(LARGEST))
        message = one_line(str(answer["message"]))
    except (OSError, HTTPException, ValueError, TypeError, KeyError):
        message = one_line(error.reason or "")
    cure = next((text for status, text in CURES.items() if status == error.code), "")
    return f"{error.code} {message}{'; ' if cure else ''}{cure}"
