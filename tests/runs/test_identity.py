"""Tests which differences in a case's work are found, and in which words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.runs.identities import ARRAYS, KNOWN, STEP, known
from warpwatch.runs.identity import (
    PARTS,
    Argument,
    Array,
    Difference,
    Field,
    Identity,
    Pointer,
    Scalar,
    Step,
    Structure,
    difference,
    incomparable,
)

X, Y = ARRAYS


def step(**parts: Any) -> dict[str, Any]:
    return {"steps": (msgspec.structs.replace(STEP, **parts),)}


def last_argument(value: Argument) -> dict[str, Any]:
    return step(arguments=(*STEP.arguments[:2], value))


def array(**parts: Any) -> dict[str, Any]:
    return {"arrays": (X, msgspec.structs.replace(Y, **parts))}


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "code": ({"code": "other"}, "machine code"),
    "entry": (step(entry="scale_slow"), "entry scale -> scale_slow"),
    "grid": (step(grid=(32, 1, 1)), "grid 64x1x1 -> 32x1x1"),
    "block": (step(block=(1, 1, 1)), "block 64x1x1 -> 1x1x1"),
    "cluster": (step(cluster=(2, 1, 1)), "cluster 1x1x1 -> 2x1x1"),
    "shared memory": (step(shared_bytes=1024), "dynamic shared memory 0 -> 1,024 bytes"),
    "value": (last_argument(Scalar("int32", "1")), "argument 3 (n): 4096 -> 1"),
    "type": (last_argument(Scalar("int64", "4096")), "argument 3 (n): int32 4096 -> int64 4096"),
    "bool": (last_argument(Scalar("bool", "1")), "argument 3 (n): int32 4096 -> bool 1"),
    "kind": (last_argument(Pointer("x", 0)), "argument 3 (n): int32 4096 -> x"),
    "offset": (step(arguments=(Pointer("x", 16), *STEP.arguments[1:])), "argument 1 (x): x -> x + 16 bytes"),
    "other array": (step(arguments=(Pointer("y", 0), *STEP.arguments[1:])), "argument 1 (x): x -> y"),
    "fewer arguments": (step(arguments=STEP.arguments[:2]), "arguments: 3 -> 2"),
    "struct": (
        last_argument(Structure(8, (Field("a", 0, Scalar("int32", "1")),))),
        "argument 3 (n): int32 4096 -> {a 1}",
    ),
    "two launches": ({"steps": (STEP, STEP)}, "launches: 1 -> 2"),
    "initial": (array(initial="0"), "array y: initial none -> 0"),
    "role": (array(role="in-out"), "array y: role out -> in-out"),
    "shape": (array(shape=(8,)), "array y: shape 4096 -> 8"),
    "element type": (array(dtype="float64"), "array y: dtype float32 -> float64"),
    "alignment": (array(aligned=256), "array y: aligned 0 -> 256"),
    "range": (
        {"arrays": (msgspec.structs.replace(X, low="0", high="1"), Y)},
        "array x: drawn from the usual range -> [0, 1)",
    ),
    "order": ({"arrays": (Y, X)}, "order of arrays x y -> y x"),
    "symbol": ({"symbols": {"weights": "x"}}, "symbol weights: none -> x"),
    "draw": ({"draw": "uniform 1 ab"}, "how inputs are drawn"),
    "call": ({"call": "torch"}, "call none -> torch"),
    "source": ({"source": "ab"}, "the source that prepares the call"),
    "library": ({"library": "cublas 13.1"}, "library none -> cublas 13.1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_the_work_is_named(change: str) -> None:
    parts, said = CHANGES[change]
    assert difference(KNOWN, known(**parts)).words == said


def test_the_same_work_has_no_difference_whatever_its_arguments_are_called() -> None:
    assert difference(KNOWN, known(**step(names=("a", "b", "count")), derived=True)) == Difference()
    assert not difference(KNOWN, KNOWN)


@pytest.mark.parametrize("part", PARTS)
def test_an_unknown_part_is_never_the_same_and_says_why(part: str) -> None:
    unknown = known(**{part: None}, why={part: "np.load reads a file"})
    for found in (difference(unknown, unknown), difference(KNOWN, unknown), difference(unknown, KNOWN)):
        assert found
        assert found.changed == {}
        assert found.words == f"{PARTS[part]} is unknown: np.load reads a file"


def test_python_code_that_cannot_be_followed_is_the_same_where_no_file_differs() -> None:
    unknown = known(draw=None, source=None)
    assert not difference(unknown, KNOWN, same_source=True)
    assert difference(known(code=None), KNOWN, same_source=True)


@pytest.mark.parametrize("other", [None, known(version=2), Identity()], ids=["none", "later", "empty"])
def test_what_is_not_recorded_or_of_another_version_is_unknown(other: Identity | None) -> None:
    assert difference(other, KNOWN).unknown == ("which work it did is not recorded",)
    assert difference(other, other)


def test_launches_in_another_order_are_another_work() -> None:
    second = msgspec.structs.replace(STEP, entry="sum")
    found = difference(known(steps=(STEP, second)), known(steps=(second, STEP)))
    assert found.words == "launch 1: entry scale -> sum; launch 2: entry sum -> scale"


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [("nan", "nan", True), ("0", "-0", False), ("nan", "nan0x010080ff", False), ("1", "1", True)],
)
def test_numbers_are_compared_by_their_bits(old: str, new: str, same: bool) -> None:
    sides = [known(**last_argument(Scalar("float32", text))) for text in (old, new)]
    assert (not difference(*sides)) == same


def test_an_array_of_unknown_type_is_not_the_same() -> None:
    untyped = known(arrays=(X, msgspec.structs.replace(Y, dtype="")))
    assert difference(untyped, untyped).words == "the type of an array is unknown"


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ((Y, X), ""),
        ((X, Y, Array(name="sums", role="scratch", shape=(8,), dtype="float32")), ""),
        ((X, msgspec.structs.replace(Y, aligned=256, low="0")), ""),
        ((X, msgspec.structs.replace(Y, initial="0")), "its results were others (array y: initial none -> 0)"),
        ((X, msgspec.structs.replace(Y, role="in-out")), "its results were others (array y: role out -> in-out)"),
        ((msgspec.structs.replace(X, dtype="int32"), Y), "its inputs were others (array x: dtype float32 -> int32)"),
        ((X, Y, msgspec.structs.replace(X, name="z")), "its inputs were others (array z is new)"),
    ],
)
def test_a_kernel_runs_on_arrays_that_differ_in_nothing_that_it_needs(arrays: tuple[Array, ...], said: str) -> None:
    assert incomparable(KNOWN, known(arrays=arrays)) == said


def test_what_is_written_is_read_again_as_it_was() -> None:
    nested = Structure(
        16, (Field("p", 0, Pointer("x", 4)), Field("s", 8, Structure(4, (Field("a", 0, Scalar("int32", "-1")),))))
    )
    made = known(**last_argument(nested), why={"draw": "a reason"})
    assert msgspec.convert(msgspec.to_builtins(made), Identity, strict=True) == made


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": []},
        {"steps": [{"entry": "a\nb", "grid": [1, 1, 1], "block": [1, 1, 1]}]},
        {"code": "a\x1b[2J"},
        {"arrays": [{"name": "x", "role": "in", "shape": [-1]}]},
        {"symbols": ["a"]},
        {"version": True},
    ],
)
def test_a_damaged_identity_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.to_builtins(KNOWN) | wrong, Identity, strict=True)


def test_structs_within_structs_end_somewhere() -> None:
    value: Any = ["scalar", "int32", "1"]
    for _ in range(20):
        value = ["struct", 4, [["a", 0, value]]]
    with pytest.raises(msgspec.ValidationError, match="more than 8 levels"):
        msgspec.convert({"entry": "f", "grid": [1, 1, 1], "block": [1, 1, 1], "arguments": [value]}, Step)
