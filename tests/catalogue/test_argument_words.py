"""Tests how the text of a kernel's arguments is read, and which NumPy scalars it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpwatch.catalogue.argument_words import BadArguments, fill, words_in

KNOWN: dict[str, Any] = {
    "addresses": {"x": 4096, "y": 2**40},
    "shapes": {"x": (3, 5), "y": (3, 5)},
    "sizes": {"m": 7, "n": 2**31},
    "scalars": {"eps": ("float32", 1e-5), "alpha": ("float64", 0.1), "count": ("uint8", 200), "flag": ("bool", True)},
    "macros": {"ROWS": 4},
}


@pytest.mark.parametrize(
    ("word", "dtype", "value"),
    [
        ("x", "uint64", 4096),
        ("y", "uint64", 2**40),
        ("m", "int32", 7),
        ("m:int64", "int64", 7),
        ("n:int64", "int64", 2**31),
        ("n:uint32", "uint32", 2**31),
        ("m:float32", "float32", 7.0),
        ("x.size", "int32", 15),
        ("x.size:uint64", "uint64", 15),
        ("eps", "float32", float(np.float32(1e-5))),
        ("alpha", "float64", 0.1),
        ("count", "uint8", 200),
        ("flag", "bool", True),
        ("eps:float32=1e-3", "float32", float(np.float32(1e-3))),
        ("half:float16=-0.5", "float16", -0.5),
        ("other:bfloat16=1.5", "bfloat16", 1.5),
        ("low:int32=-2147483648", "int32", -(2**31)),
        ("high:uint64=18446744073709551615", "uint64", 2**64 - 1),
        ("yes:bool=1", "bool", True),
        ("null", "uint64", 0),
        ("true", "bool", True),
        ("false", "bool", False),
        ("7", "int32", 7),
        ("m//2", "int32", 3),
        ("ceil(m/2):int64", "int64", 4),
        ("x.size/3", "int32", 5),
        ("max(m, 32)*ROWS", "int32", 128),
        ("ROWS", "int32", 4),
        ("1/sqrt(m+2):float64", "float64", 1 / 3),
        ("alpha*2:float64", "float64", 0.2),
    ],
)
def test_a_word_is_a_scalar_of_its_type(word: str, dtype: str, value: object) -> None:
    (made,) = fill(words_in(word), **KNOWN)
    assert isinstance(made, np.generic)
    assert (made.dtype.name, made.item()) == (dtype, value)


def test_words_keep_their_order_and_may_occur_twice() -> None:
    made = fill(["y", "x", "m", "m", "eps", "x.size"], **KNOWN)
    assert [value.dtype.name for value in made] == ["uint64", "uint64", "int32", "int32", "float32", "int32"]
    assert fill([], **KNOWN) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "x,y",
            "'x,y' is not an argument (blanks separate arguments): write x, m, m:int64, x.size, ceil(m/32)",
        ),
        ("x y.shape", "'y.shape' is not an argument"),
        ("eps=1e-5", "'eps=1e-5' is not an argument"),
        ("m:", "'m:' is not an argument"),
        ("x+8", "x+8: x is an array, not a number: give it alone, or let a function add"),
        ("m/2", "m/2 is 3.5 (m = 7): a whole number is due: write ceil(m/2) or m/2:float32"),
        ("m/2:int64", "m/2 is 3.5 (m = 7): a whole number is due"),
        ("k*2", "'k*2' is not an argument (k is not known; there are "),
        ("1/(m-7)", "'1/(m-7)' is not an argument ('1/(m-7)' has no value: division by zero)"),
        ("2**40", "2**40 = 1099511627776 does not fit into int32: write 2**40:int64"),
        ("m*m:int65", "m*m has the type 'int65', which does not exist"),
        ("__import__('os')", "is not arithmetic that is known here"),
        ("m.__class__", "'m.__class__' is not arithmetic that is known here"),
        ("[m]", "'[m]' is not a number"),
        ("z", "z is neither an array nor a size nor a scalar; there are x, y, m, n, eps, alpha, count, flag"),
        ("z.size", "z.size is of no array; there are x, y"),
        ("m.size", "m.size is of no array; there are x, y"),
        ("n", "n = 2147483648 does not fit into int32: write n:int64"),
        ("m:int65", "m has the type 'int65', which does not exist: write int32, float32"),
        ("a:int8=128", "a = 128 does not fit into int8"),
        ("a:uint8=-1", "a = -1 does not fit into uint8"),
        ("a:int32=1.5", "a = '1.5' is not a valid int32"),
        ("a:float32=b", "a = 'b' is not a valid float32"),
        ("a:float16=1e9", "a = 1e9 does not fit into float16"),
    ],
)
def test_what_cannot_be_an_argument_is_named(text: str, said: str) -> None:
    with pytest.raises(BadArguments) as caught:
        fill(words_in(text), **KNOWN)
    assert said in str(caught.value)
