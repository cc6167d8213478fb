"""Textures of the software device: what they give at coordinates, held against NumPy and against an H100."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda.textures import objects, reference
from tests.softcuda.textures.objects import (
    BORDER,
    CLAMP,
    CUBEMAP,
    LAYERED,
    MIRROR,
    NORMALIZED,
    READ_AS_INTEGER,
    WRAP,
    Texture,
)
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.worker import Worker, describe_device

FOLDER = ROOT / "tests/softcuda/textures"
Ask = Callable[..., list[np.ndarray]]
Question = tuple[str, Texture, np.ndarray]


@pytest.fixture(scope="module")
def ask(software: Worker) -> Ask:
    """A function that answers what kernels of kernels.cu fetch, with every access checked."""
    image = compile_file(FOLDER / "kernels.cu", {}, software.call(describe_device).target)

    def answers(questions: list[Question]) -> Any:
        return software.call(objects.in_a_context, objects.many_fetched, image.path, questions)

    return answers


def values(kind: str, *shape: int) -> np.ndarray:
    """Elements of a type, over all of its range; of floats from -2 to 2."""
    rng = np.random.default_rng(shape)
    if kind.startswith("float"):
        return rng.uniform(-2, 2, shape).astype(kind)
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)


def places(texture: Texture, count: int = 300) -> np.ndarray:
    """Coordinates within a texture and around it: random ones, centres and edges of texels, and what is far away."""
    rng = np.random.default_rng(count)
    extents = [*texture.values.shape[-2::-1], 1, 1][:3]
    rows = []
    for extent in extents:
        whole = rng.integers(-2 * extent, 3 * extent, count // 3) / 2
        random = rng.uniform(-1.5 * extent, 2.5 * extent, count - len(whole) - 4)
        rows.append(np.concatenate([random, whole, [-1e9, 1e9, np.inf, -np.inf]]))
    made = np.stack(rows)
    if texture.flags & NORMALIZED:
        made[:, : count - 4 - count // 3] /= np.array(extents)[:, None]
        made = np.clip(made, -100, 100)
    return made.astype(np.float32)


def differences(ask: Ask, entry: str, textures: list[Texture], unit: float = 2**-24) -> list[str]:
    """What is fetched otherwise than NumPy computes it, by more than half of a unit, each a sentence."""
    asked = [(entry, texture, places(texture)) for texture in textures]
    said = []
    for (_, texture, coordinates), got in zip(asked, ask(asked), strict=True):
        wanted = reference.fetched(texture, coordinates)
        channels = wanted.shape[1]
        read = got[:, :channels] if wanted.dtype == np.float32 else got[:, :channels].copy().view(
            np.int32 if wanted.dtype.kind == "i" else np.uint32)  # fmt: skip
        far = np.abs(read.astype(np.float64) - wanted) > unit / 2
        if far.any() or got[:, channels:].any():
            place = int(np.argmax(far.any(axis=1)))
            said.append(f"{texture}: at {coordinates[:, place]} {read[place]}, not {wanted[place]}")
    return said


MODES = [(WRAP,) * 3, (CLAMP,) * 3, (MIRROR,) * 3, (BORDER,) * 3, (WRAP, MIRROR, BORDER), (BORDER, CLAMP, WRAP)]
SHAPES = {"fetch_1d": (13, 2), "fetch_2d": (9, 13, 4), "fetch_3d": (5, 6, 7, 1)}


@pytest.mark.once
@pytest.mark.parametrize("entry", SHAPES)
def test_floats_are_addressed_and_filtered_as_numpy_computes_it(ask: Ask, entry: str) -> None:
    """All address modes, both kinds of coordinates and both filters; the sums are one rounding from exact."""
    textures = [
        Texture(
            values=values("float32", *SHAPES[entry]), linear=linear, modes=modes, flags=flags, border=(0.25, -1, 2, 9)
        )
        for linear, modes, flags in itertools.product((False, True), MODES, (0, NORMALIZED))
    ]  # fmt: skip
    assert differences(ask, entry, textures) == []


NARROW = ("uint8", "int8", "uint16", "int16", "float16")


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("linear", [False, True], ids=["point", "linear"])
def test_narrow_elements_are_read_as_floats(ask: Ask, kind: str, linear: bool) -> None:
    textures = [
        Texture(values=values(kind, 6, 7, channels), linear=linear, modes=(mode,) * 3, flags=flags)
        for channels, mode, flags in itertools.product((1, 2, 4), (WRAP, CLAMP, BORDER), (0, NORMALIZED))
    ]
    assert differences(ask, "fetch_2d", textures, 0.0) == []


@pytest.mark.parametrize("kind", [*NARROW[:4], "uint32", "int32"])
def test_integers_are_read_as_they_are(ask: Ask, kind: str) -> None:
    textures = [
        Texture(values=values(kind, 6, 7, channels), flags=READ_AS_INTEGER | flags, modes=(mode,) * 3)
        for channels, mode, flags in itertools.product((1, 2, 4), (MIRROR, BORDER), (0, NORMALIZED))
    ]
    assert differences(ask, "words_2d", textures, 0.0) == []


def bits(got: np.ndarray) -> list[list[int]]:
    words: list[list[int]] = np.ascontiguousarray(got).view(np.uint32).tolist()
    return words


@pytest.mark.parametrize("kind", [*NARROW, "uint32", "int32", "float32"])
def test_linear_memory_is_fetched_by_index_and_zero_outside(ask: Ask, kind: str) -> None:
    index = np.array([[-(2**30), -1, 0, 1, 5, 40, 41, 42, 1000, 2**30]] * 3, np.float32)
    whole = [int(i) for i in index[0]]
    for channels in (1, 2, 4):
        memory = values(kind, 42, channels)
        integers = Texture(values=memory, memory="linear", flags=READ_AS_INTEGER)
        scale = 1 if kind.startswith("float") or memory.itemsize == 4 else np.iinfo(kind).max
        got, pointer, floats = ask([("words_linear", integers, index), ("pointer_linear", integers, index),
                                    ("fetch_linear", Texture(values=memory, memory="linear"), index)])  # fmt: skip
        zero = np.zeros(channels, memory.dtype)
        wanted = np.array([memory[i] if 0 <= i < 42 else zero for i in whole])
        if kind.startswith("float"):
            wanted = wanted.astype(np.float32)
            assert bits(got[:, :channels]) == bits(pointer[:, :channels]) == bits(wanted)
        else:
            assert bits(got[:, :channels]) == bits(wanted.astype(np.int64).astype(np.uint32))
            if memory.itemsize < 4:
                least = np.maximum(wanted.astype(np.float64), -scale)
                assert bits(floats[:, :channels]) == bits((least / scale).astype(np.float32))
        assert not got[:, channels:].any()


def test_a_wide_texture_is_found_to_the_bit_by_normalised_coordinates(ask: Ask) -> None:
    """The texels count themselves, so that what is fetched is the place."""
    for extent in (5000, 16384, 30000):
        line = np.arange(extent, dtype=np.float32)[:, None]
        made = [Texture(values=line, linear=linear, flags=NORMALIZED) for linear in (False, True)]
        assert differences(ask, "fetch_1d", made) == []


def test_a_pitched_plane_is_an_array(ask: Ask) -> None:
    for kind, linear in itertools.product(("uint8", "float16", "float32"), (False, True)):
        plane = values(kind, 9, 13, 1)
        made = [Texture(values=plane, memory=memory, linear=linear) for memory in ("array", "pitch2D")]
        one, other = ask([("fetch_2d", each, places(each)) for each in made])
        assert bits(one) == bits(other)


# The same fetch in other words: of each pair, both give the same.
SAME = [
    ("fetch_1d", "pointer_1d"), ("fetch_1d", "pointer_lod_1d"), ("fetch_2d", "pointer_2d"), ("fetch_2d", "lod_2d"),
    ("fetch_2d", "grad_2d"), ("fetch_3d", "pointer_3d"), ("fetch_3d", "pointer_lod_3d"),
    ("fetch_3d", "pointer_grad_3d"), ("fetch_2d_layered", "pointer_2d_layered"),
    ("fetch_1d_layered", "pointer_1d_layered"), ("gather_0", "pointer_gather"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME, ids=[other for _, other in SAME])
def test_every_form_of_a_fetch_gives_the_same(ask: Ask, one: str, other: str) -> None:
    shape = {"1": (3, 13, 1) if "layered" in one else (13, 1), "3": (5, 6, 7, 1)}.get(one[6], (5, 6, 1))
    if one == "fetch_2d_layered":
        shape = (3, 5, 6, 1)
    made = Texture(values=values("float32", *shape), linear=True, array_flags=LAYERED if "layered" in one else 0)
    where = places(made)
    first, second = ask([(one, made, where), (other, made, where)])
    assert bits(first) == bits(second)
    assert len(np.unique(first[:, 0])) > 20


def test_layers_are_apart_and_the_last_stands_for_those_that_are_not_there(ask: Ask) -> None:
    rng = np.random.default_rng(5)
    planes, lines = values("float32", 3, 5, 6, 2), values("float32", 4, 13, 2)
    where = np.stack([rng.uniform(-2, 9, 200), rng.uniform(-2, 7, 200), rng.integers(-2, 6, 200)]).astype(np.float32)
    by_line = where[[0, 2, 1]]
    got_planes, got_lines = ask([
        ("fetch_2d_layered", Texture(values=planes, linear=True, array_flags=LAYERED), where),
        ("fetch_1d_layered", Texture(values=lines, linear=True, array_flags=LAYERED), by_line),
    ])  # fmt: skip
    for layers, got in ((planes, got_planes), (lines, got_lines)):
        number = np.where(where[2] < 0, len(layers) - 1, np.minimum(where[2], len(layers) - 1))
        for layer in range(len(layers)):
            of_layer = where[:, number == layer]
            wanted = reference.fetched(Texture(values=layers[layer], linear=True), of_layer)
            assert np.abs(got[number == layer, :2] - wanted).max() <= 2**-25


def test_a_gather_takes_a_component_of_the_four_texels_that_filtering_would(ask: Ask) -> None:
    texture = Texture(values=values("float32", 9, 13, 4), array_flags=objects.GATHER)
    where = places(texture)
    where[:, -4:] = 0
    x, y = (np.floor(np.floor(row.astype(np.float64) * 256 + 0.5) / 256 - 0.5).astype(int) for row in where[:2])
    for component, got in enumerate(ask([(f"gather_{i}", texture, where) for i in range(4)])):
        corners = [(0, 1), (1, 1), (1, 0), (0, 0)]
        wanted = [
            texture.values[np.clip(y + j, 0, 8), np.clip(x + i, 0, 12), component] for i, j in corners
        ]  # fmt: skip
        assert bits(got) == bits(np.stack(wanted, axis=1))


def test_a_cube_is_fetched_on_the_face_that_a_direction_meets(ask: Ask) -> None:
    """The directions to the centres of texels, by the table of the guide, and a little beside them."""
    faces = values("float32", 6, 4, 4, 1)
    directions, wanted = [], []
    for face, row, column in itertools.product(range(6), range(4), range(4)):
        s, t = (2 * column + 1) / 4 - 1, (2 * row + 1) / 4 - 1
        table = [(1, -t, -s), (-1, -t, s), (s, 1, t), (s, -1, -t), (s, -t, 1), (-s, -t, -1)]
        directions += [np.multiply(table[face], size) for size in (0.01, 1, 70)]
        wanted += [faces[face, row, column, 0]] * 3
    where = np.array(directions, np.float32).T
    for linear in (False, True):
        texture = Texture(values=faces, linear=linear, array_flags=CUBEMAP, flags=NORMALIZED)
        (got,) = ask([("fetch_cube", texture, where)])
        assert np.allclose(got[:, 0], wanted, rtol=0, atol=0.02 if linear else 0)


# By how much a fetch on an H100 may be another: see sampling.cpp.
APART = {"nfint821": 1 / 32767, "nffloat1611": 0.0, "norm0113": 2**-24, "norm1113": 2**-24, "norm2113": 2**-24,
         "norm3113": 2**-24, "unnorm3113": 2**-24, "d31": 2**-24, "d3n1": 2**-24, "cube1": 2**-24}  # fmt: skip


def recorded() -> dict[str, Any]:
    """Textures, coordinates and what an H100 (driver 580) fetched there, by kernels.cu as nvcc 13.0 compiles it."""
    entries: dict[str, Any] = json.loads((FOLDER / "h100.json").read_text())
    return entries


def test_fetches_are_those_of_an_h100(ask: Ask) -> None:
    asked, wanted = [], []
    for each in recorded().values():
        texels = np.frombuffer(bytes.fromhex(each["values"]), each["type"]).reshape(each["shape"])
        texture = Texture(values=texels, memory=each["memory"], linear=each["linear"], modes=tuple(each["modes"]),
                          flags=each["flags"], border=tuple(each["border"]),
                          array_flags=each["array_flags"])  # fmt: skip
        asked.append((each["entry"], texture, np.frombuffer(bytes.fromhex(each["coordinates"]), "f4").reshape(3, -1)))
        wanted.append(np.frombuffer(bytes.fromhex(each["fetched"]), "f4").reshape(-1, 4))
    assert len(asked) >= 20
    for name, got, hardware in zip(recorded(), ask(asked), wanted, strict=True):
        same = bits(got) == bits(hardware)
        assert same or np.abs(got - hardware).max() <= APART.get(name, 0.0), name


def test_without_checks_the_same_is_fetched(software: Worker, ask: Ask, tmp_path: Path) -> None:
    image = compile_file(FOLDER / "kernels.cu", {}, software.call(describe_device).timing_target)
    texture = Texture(values=values("float32", 5, 6, 7, 2), linear=True)
    asked = [("fetch_3d", texture, places(texture))]
    (got,) = software.call(objects.in_a_context, objects.many_fetched, image.path, asked)
    assert bits(got) == bits(ask(asked)[0])
