"""Is every kernel right?"""

from __future__ import annotations

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.plugin.fixtures import Check


@pytest.mark.cases("tested")
def test_right(check: Check, case: Case) -> None:
    if case.family.exact:
        check(exact=True)
    check()


@pytest.mark.cases("edges")
def test_edge(check: Check, case: Case) -> None:
    check(exact=case.family.exact)
