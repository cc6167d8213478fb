"""Runs the PTX instructions of tensor cores on the software device, and compares their products with NumPy's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda.device import Device
from tests.softcuda.products import (
    BITS,
    FLOATS,
    PLACES_A,
    PLACES_B,
    PRODUCTS,
    Matrix,
    Product,
    drawn,
    from_registers,
    in_registers,
    kernel,
    place_c,
)
from warpwatch.devices.compile.compiler import Image, compile_text


@pytest.fixture
def image(checked: Device) -> Image:
    """All products, which are compiled together."""
    text = "".join(kernel(product, number) for number, product in enumerate(PRODUCTS))
    return compile_text(text, "products.cu", checked.unchecked.target)


def product_of(checked: Device, image: Image, product: Product, a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """D of m x 8, by the instruction."""
    places = PLACES_A[product.m, BITS[product.a], product.k], PLACES_B[BITS[product.b], product.k], place_c
    arrays = [
        in_registers(kind, values, place, count)
        for kind, values, place, count in zip(
            (product.a, product.b, product.d), (a, b, c), places, product.words(), strict=True
        )
    ]
    name = f"product_{PRODUCTS.index(product)}"
    left = checked.computed(image, name, arrays, arrays[2].nbytes, arrays[2].dtype)
    return from_registers(product.d, left, product.m)


def wanted_of(product: Product, a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """The same in float64 or int64."""
    if product.operation == ".xor.popc":
        return np.asarray((a[:, :, None] ^ b[None, :, :]).sum(1) + c)
    return np.asarray(a @ b + c)


def assert_near(product: Product, got: Matrix, wanted: Matrix, sizes: Matrix) -> None:
    """Half a unit in the last place of D, and what float64 may lose in sums of so large terms."""
    unit = np.spacing(abs(wanted).astype(FLOATS[product.d])).astype(np.float64)
    assert (abs(got.astype(np.float64) - wanted) <= unit / 2 + (product.k + 1) * 2.0**-52 * sizes).all()


@pytest.mark.once
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name.partition("aligned.")[2])
def test_a_product_of_the_tensor_cores(checked: Device, image: Image, product: Product) -> None:
    """Of small whole numbers exactly; of any numbers rounded once from float64."""
    rng = np.random.default_rng(1)
    for whole in (True, False):
        a = drawn(product.a, (product.m, product.k), rng, whole)
        b = drawn(product.b, (product.k, 8), rng, whole)
        c = drawn(product.d, (product.m, 8), rng, whole)
        got, wanted = product_of(checked, image, product, a, b, c), wanted_of(product, a, b, c)
        if whole or product.d == "s32":
            assert (got == wanted).all()
        else:
            assert_near(product, got, wanted, abs(a) @ abs(b) + abs(c))


def test_a_whole_number_that_does_not_fit_wraps_or_stays_in_range(checked: Device, image: Image) -> None:
    for product in (each for each in PRODUCTS if each.a in ("s8", "u8")):
        a = np.full((product.m, product.k), 127)
        b, c = np.full((product.k, 8), 127), np.full((product.m, 8), 2**31 - 5)
        exact = wanted_of(product, a, b, c)
        wanted = exact.clip(-(2**31), 2**31 - 1) if product.extra else exact.astype(np.int32)
        assert (product_of(checked, image, product, a, b, c) == wanted).all(), product.name


def test_tf32_takes_nineteen_bits_of_a_float(checked: Device, image: Image) -> None:
    """What lies below them is cut off, as the hardware does it."""
    product = next(each for each in PRODUCTS if each.a == "tf32")
    a, b = np.full((16, product.k), 1 + 2.0**-10 + 2.0**-11), np.eye(product.k, 8)
    got = product_of(checked, image, product, a, b, np.zeros((16, 8)))
    assert (got[:, : product.k] == 1 + 2.0**-10).all()


FAULTS = ROOT / "tests/softcuda/matrix_faults.cu"
# What is said of each kernel of two warps.
SAID = {
    "without_barrier": r"race in without_barrier\n.*(?:reads 16|writes 2) bytes of shared tile .*\n.* no barrier",
    "past_the_end": r"out of bounds in past_the_end\n.*reads 16 bytes .*just past the end of .*tile",
    "never_written": r"uninitialised memory in never_written\n.*reads 16 bytes of shared tile",
    "unaligned": r"misaligned access in unaligned\n.*16 bytes",
    # Lanes that have ended are missed by no warp function; this one needs all 32.
    "half_of_a_warp": r"a matrix instruction in a warp of fewer than 32 threads in half_of_a_warp",
    "lanes_that_returned": r"a matrix instruction in a warp of fewer than 32 threads in lanes_that_returned",
    "leading_dimension": r"misaligned access in leading_dimension\n.*16 bytes",
    "too_many_rows": r"out of bounds in too_many_rows\n.*writes 16 bytes .*past the end of out",
    "short_warp": r"a matrix instruction in a warp of fewer than 32 threads in short_warp",
    "two_instructions": r"different matrix instructions in the lanes of one warp in two_instructions",
}


@pytest.mark.once
@pytest.mark.parametrize("name", SAID)
def test_a_faulty_matrix_instruction_is_found_at_its_line(checked: Device, name: str) -> None:
    """In each order of the threads."""
    comment = "read" if name == "without_barrier" else name
    lines = [i for i, text in enumerate(FAULTS.read_text().split("\n"), 1) if text.endswith(f"// {comment}")]
    for said in map(str, checked.left(checked.image(FAULTS), name, 256, 24 if name == "short_warp" else 64)):
        assert re.search(SAID[name], said), said
        assert any(f"matrix_faults.cu:{line}: " in said for line in lines), said


def test_rows_behind_a_barrier_are_no_race(checked: Device) -> None:
    wanted = np.tile(np.arange(32, dtype=np.uint32) << 16, 2)
    for left in checked.left(checked.image(FAULTS), "with_barrier", 256, 64):
        assert isinstance(left, bytes), left
        assert (np.frombuffer(left, np.uint32) == wanted).all()
