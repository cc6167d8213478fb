"""Is every kernel right? Each listed test shape, on a GPU or on the software device."""

import pytest


@pytest.mark.cases("tested")
def test_right(check):
    check()
