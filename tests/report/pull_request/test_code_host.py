"""Tests of the calls to a code host, against a stand-in for it."""

from __future__ import annotations

import pytest

from tests.report.pull_request.stand_in import BOT, TOKEN, StandIn, serve
from warpwatch.report.pull_request import code_host
from warpwatch.report.pull_request.code_host import Refused
from warpwatch.report.pull_request.github import GitHub

MARKER = "<!-- warpwatch: kernels -->"
SHA = "5" * 40


def host(there: StandIn, token: str = TOKEN) -> GitHub:
    return GitHub(api=there.url, repository="them/theirs", token=token)


def test_each_title_has_one_comment_which_is_found_among_hundreds_and_updated(there: StandIn) -> None:
    other = "<!-- warpwatch: other -->"
    for marker in (MARKER, other):
        assert host(there).write_comment(7, marker, f"{marker}\nfirst", BOT) == "written"
        for number in range(115):
            there.add_comment(f"remark {number}", "somebody")
    for marker in (MARKER, other):
        assert host(there).write_comment(7, marker, f"{marker}\nsecond", BOT) == "updated"
    assert there.bodies() == [f"{MARKER}\nsecond", f"{other}\nsecond"]


def test_nobody_elses_comment_is_changed(there: StandIn) -> None:
    there.add_comment(f"{MARKER}\nmine, with your marker", "somebody")
    there.add_comment(f"I quote: {MARKER}", BOT)
    assert host(there).write_comment(7, MARKER, f"{MARKER}\nours", BOT) == "written"
    assert there.bodies("somebody") == [f"{MARKER}\nmine, with your marker"]
    assert there.bodies()[1:] == [f"{MARKER}\nours"]


def test_a_pull_request_is_found_by_its_newest_commit(there: StandIn) -> None:
    there.add_pull(3, "fork:fix", "4" * 40)
    there.add_pull(9, "fork:fix", SHA)
    assert host(there).find_pull_request(head="fork:fix", sha=SHA) == 9
    assert host(there).find_pull_request(head="fork:fix", sha="6" * 40) is None
    assert host(there).find_pull_request(head="fork:a branch&state=closed", sha=SHA) is None
    with pytest.raises(Refused, match="is not a full commit id: give all 40 characters"):
        host(there).find_pull_request(head="fork:fix", sha="5555")


@pytest.mark.parametrize(
    ("status", "said", "cure"),
    [
        (403, "Resource not accessible by integration", "permissions: pull-requests: write"),
        (404, "Not Found", "no such repository or pull request"),
        (422, "Validation Failed", "may be locked"),
        (410, "gone", "410 gone"),
        (401, "Bad credentials", "401 Bad credentials; the token is missing or not valid"),
    ],
)
def test_a_refusal_says_what_the_host_said_and_what_helps(there: StandIn, status: int, said: str, cure: str) -> None:
    there.refusals = [(status, said, {})]
    with pytest.raises(Refused) as caught:
        host(there).write_comment(7, MARKER, MARKER, BOT)
    assert f"{status} {said}" in str(caught.value)
    assert cure in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert not there.comments


def test_a_busy_host_is_asked_again(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    there.refusals = [(503, "busy", {}), (429, "slow down", {"Retry-After": "7"})]
    assert host(there).write_comment(7, MARKER, MARKER, BOT) == "written"
    assert waited == [code_host.WAITS[0], 7.0]
    there.refusals = [(502, "bad gateway", {})] * (1 + len(code_host.WAITS))
    with pytest.raises(Refused, match="502 bad gateway"):
        host(there).write_comment(7, MARKER, MARKER, BOT)


def test_no_redirect_is_followed(there: StandIn) -> None:
    with serve(StandIn()) as other:
        there.refusals = [(302, "over there", {"Location": f"{other.url}/repos/them/theirs/issues/7/comments"})]
        with pytest.raises(Refused, match="302"):
            host(there).write_comment(7, MARKER, MARKER, BOT)
        assert not other.asked


def test_a_host_that_is_not_there_is_one_sentence(there: StandIn) -> None:
    gone = GitHub(api="http://127.0.0.1:1", repository="them/theirs", token=TOKEN)
    with pytest.raises(Refused, match="refused"):
        gone.write_comment(7, MARKER, MARKER, BOT)


@pytest.mark.parametrize(
    ("api", "repository", "token", "said"),
    [
        ("http://api.example.com", "a/b", "t", "no https address: the token would be read on its way"),
        ("ftp://127.0.0.1", "a/b", "t", "no https address"),
        ("https://api.example.com", "a", "t", "is not the name of a repository: give OWNER/NAME"),
        ("https://api.example.com", "a/b/../../user", "t", "is not the name of a repository"),
        ("https://api.example.com", "a/b", "", "set GITHUB_TOKEN"),
    ],
)
def test_a_call_that_cannot_be_right_is_refused_before_it(api: str, repository: str, token: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        GitHub(api=api, repository=repository, token=token)


def test_an_answer_that_is_none_of_the_interfaces_is_a_sentence(there: StandIn) -> None:
    there.refusals = [(200, "a page", {})]
    with pytest.raises(Refused, match="with no list: is GITHUB_API_URL right"):
        host(there).write_comment(7, MARKER, MARKER, BOT)
