"""Tests how lists of configurations are read, and what stands for them in ids."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

from warpwatch.catalogue.variants import Configuration, configurations


@pytest.mark.parametrize(
    ("given", "label", "block", "macros"),
    [
        (256, "256", (256,), ()),
        ((16, 16), "16x16", (16, 16), ()),
        ([8, 8, 4], "8x8x4", (8, 8, 4), ()),
        ({"block": 128}, "128", (128,), ()),
        ({"block": (64, 2)}, "64x2", (64, 2), ()),
        ({"block": (256,), "ROWS": 2}, "256_rows2", (256,), (("ROWS", 2),)),
        ({"block": (256,), "ROWS": 2, "kind": "Fast"}, "256_rows2_kindfast", (256,), (("ROWS", 2), ("kind", "Fast"))),
        ({"block": (256,), "ROWS": 2, "name": "two_rows"}, "two_rows", (256,), (("ROWS", 2),)),
        ((), "", (), ()),
    ],
)
def test_a_configuration_is_a_block_or_a_mapping(given: Any, label: str, block: Any, macros: Any) -> None:
    (made,) = configurations((given,))
    assert (made.label, made.block, made.macros) == (label, block, macros)


def test_a_macro_is_an_attribute() -> None:
    (made,) = configurations([{"block": 256, "ROWS": 2}])
    assert made.ROWS == 2
    with pytest.raises(AttributeError, match="this configuration has no COLUMNS; it has block, ROWS"):
        _ = made.COLUMNS
    copy = pickle.loads(pickle.dumps(made))
    assert (copy, copy.ROWS, hash(copy)) == (made, 2, hash(made))


def test_only_a_block_alone_could_be_any_other() -> None:
    plain, with_macros = configurations((256, {"block": 256, "ROWS": 2}))
    assert (plain.plain, with_macros.plain) == (True, False)
    assert Configuration((8, 8)).plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "is (): give a tuple of at least one"),
        ("256", "is '256': give a tuple of at least one"),
        (((8, 8), 16), "has blocks of 1 and of 2 sizes: (16,) and (8, 8)"),
        (((8, 8), (8, 8)), "has 8x8 twice: ids would be the same; give one of them a name="),
        (({"block": 8, "ROWS": 1}, {"block": 8, "rows": 1}), "has 8_rows1 twice"),
        (({"block": 8, "name": "16"}, 16), "has 16 twice"),
        (((8, 0),), "has (8, 0): a block is one to three whole numbers from 1 on"),
        (((8, True),), "has (8, True): a block is"),
        (((1, 1, 1, 1),), "has (1, 1, 1, 1): a block is"),
        (("8x8",), "has '8x8': a block is"),
        (((8.0,),), "has (8.0,): a block is"),
        (({"block": 8, "A B": 1},), "has 'A B' = 1: a macro is a name, and a whole number or a text"),
        (({"block": 8, "ROWS": 0.5},), "has 'ROWS' = 0.5: a macro is a name"),
        (({"block": 8, "name": "a-b"},), "has the name 'a-b': it stands in ids"),
        (({"block": 8, "name": 3},), "has the name 3: it stands in ids"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(given: object, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        configurations(given)
