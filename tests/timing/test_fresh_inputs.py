"""Tests that inputs differ in every launch, and are those that the reference is given."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from warpwatch.catalogue.cases import Build, Case, find_case
from warpwatch.devices.foreign.secret_random import SecretRandom
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import GuardedArray, NoFigure
from warpwatch.devices.worker import Worker, gpu
from warpwatch.timing.fresh_inputs import PIECE, FreshInputs

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
WRITES = 5


def written(case: Case) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Write inputs several times, in the worker; return what lies there each time, and what the reference is given."""
    fresh = FreshInputs(gpu(), case, SecretRandom())
    arrays = {array.name: GuardedArray(gpu(), array.name, array.shape, array.dtype) for array in case.inputs}
    there, given = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    for _ in range(WRITES):
        given.append(fresh.host(fresh.write(arrays)))
        there.append({name: array.read() for name, array in arrays.items()})
    fresh.free()
    for array in arrays.values():
        array.free()
    return there, given


@pytest.mark.parametrize("name", ["copy-memcpy-vendor-33-float32", "copy-memcpy-vendor-1048576-float32"])
def test_no_two_launches_have_the_same_inputs_and_the_reference_knows_each(software: Worker, name: str) -> None:
    there, given = software.call(written, find_case(FAMILIES, name))
    for inputs, right in zip(there, given, strict=True):
        assert np.array_equal(inputs["A"], right["A"])
        assert -1 <= inputs["A"].min() < 0 < inputs["A"].max() < 1
    for i, first in enumerate(there):
        for second in there[i + 1 :]:
            assert np.mean(first["A"] == second["A"]) < 0.01


@pytest.mark.slow
def test_large_inputs_are_no_long_parts_of_earlier_ones(software: Worker) -> None:
    there, _ = software.call(written, find_case(FAMILIES, "copy-memcpy-vendor-1048576-float32"))
    far = PIECE // 4  # elements, so that both of a pair are never of one piece
    pairs = [
        {*zip(flat[:-far].tolist(), flat[far:].tolist(), strict=True)} for flat in (each["A"] for each in there[:2])
    ]
    assert len(pairs[0] & pairs[1]) < 0.001 * len(pairs[0])  # some by chance


class Written:
    """An array of no device."""

    def write(self, values: Any) -> None:
        self.values = values


def case_of(arrays: Any, **more: Any) -> Case:
    family = ww.Family(
        "own",
        sizes=("n",),
        arrays=arrays,
        reference=lambda x: x,
        tests=((5,),),
        variants=(ww.kernel("new", configurations=(32,), x=0, y=None),),
        **more,
    )
    (variant,) = family.variants
    return Case(Build(family, variant, variant.listed[0], "float32"), (5,))


def copied(n: int) -> dict[str, Any]:
    return {"x": ww.In(n, "float32"), "y": ww.Out(n, "float32")}


def test_a_familys_own_draw_is_asked_for_each_launch() -> None:
    device, arrays = None, Written()
    case = case_of(copied, draw=lambda rng, n: {"x": 7 + rng.random(n)})
    fresh = FreshInputs(cast("Device", device), case, SecretRandom())
    for _ in range(WRITES):
        recipe = fresh.write(cast("dict[str, GuardedArray]", {"x": arrays}))
        assert np.array_equal(arrays.values, fresh.host(recipe)["x"])
        assert arrays.values.min() >= 7


def test_inputs_that_cannot_differ_are_no_figure() -> None:
    device = cast("Device", None)
    nothing = case_of(lambda n: {"y": ww.Out(n, "float32")})
    with pytest.raises(NoFigure, match="without inputs, a result of an earlier launch cannot be told from a new one"):
        FreshInputs(device, nothing, SecretRandom())
    other = case_of(copied, draw=lambda rng, n: {"x": rng.random(n + 1)})
    with pytest.raises(NoFigure, match="draw returns inputs of other shapes for 8 seeds"):
        FreshInputs(device, other, SecretRandom()).write({})
