"""Pull requests at GitHub.

https://docs.github.com/en/rest/issues/comments, https://docs.github.com/en/rest/pulls/pulls
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

import msgspec

from warpwatch.report.pull_request.code_host import Comment, Host, Refused


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


@dataclass(frozen=True, kw_only=True)
class GitHub(Host):
    """A repository at GitHub."""

    TOKEN: ClassVar[str] = "GITHUB_TOKEN"
    API: ClassVar[str] = "GITHUB_API_URL"
    DEFAULT: ClassVar[str] = "https://api.github.com"
    NAME: ClassVar[str] = r"[\w.-]+/[\w.-]+"
    FORM: ClassVar[str] = "OWNER/NAME"
    HEADERS: ClassVar[Mapping[str, str]] = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    CURES: ClassVar[Mapping[int, str]] = {
        HTTPStatus.UNAUTHORIZED: "the token is missing or not valid: give GITHUB_TOKEN",
        HTTPStatus.FORBIDDEN: "the token may not write here: the job needs `permissions: pull-requests: write`",
        HTTPStatus.NOT_FOUND: "there is no such repository or pull request, or the token may not see it",
        HTTPStatus.UNPROCESSABLE_ENTITY: "it does not take the text: the pull request may be locked",
    }

    @property
    def place(self) -> str:
        return f"repos/{self.repository}"

    def find_pull_request(self, *, head: str, sha: str) -> int | None:
        """Return the number of the open pull request whose newest commit is ``sha``; None where it has moved on.

        ``head``: OWNER:BRANCH. The number is not taken from what the pull request's own jobs left behind, which could
        name another one. Raises Refused.
        """
        if not re.fullmatch(r"[0-9a-f]{40}", sha):
            raise Refused(f"{sha!r} is not a full commit id: give all 40 characters")
        query = urllib.parse.urlencode({"state": "open", "head": head, "per_page": 100})
        pulls = self.ask("GET", f"{self.place}/pulls?{query}", list[_Pull])
        return next((pull.number for pull in pulls if pull.head and pull.head.sha == sha), None)

    def comments(self, number: int) -> Iterator[Comment]:
        """Yield the comments of a pull request. Raises Refused."""
        for each in self.pages(f"{self.place}/issues/{number}/comments?", _Comment):
            yield Comment(id=each.id, body=each.body or "", author=each.user.login if each.user else "")

    def put_comment(self, number: int, body: str, earlier: Comment | None) -> None:
        """Write a comment, or another body of an earlier one. Raises Refused."""
        of_earlier = ("PATCH", f"{self.place}/issues/comments/{earlier.id}") if earlier else None
        method, path = of_earlier or ("POST", f"{self.place}/issues/{number}/comments")
        self.ask(method, path, Any, {"body": body})

    def open_pull_request(self, *, title: str, head: str, base: str, body: str) -> int:
        """Open a pull request from the branch ``head`` to ``base``, and return its number. Raises Refused."""
        content = {"title": title, "head": head, "base": base, "body": body}
        return self.ask("POST", f"{self.place}/pulls", _Pull, content).number
