"""Holds that random numbers in kernels have the bits that their authors publish, and cuRAND's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.worker import Worker, describe_device

XORWOW, PHILOX, MRG = "curandState", "curandStatePhilox4_32_10_t", "curandStateMRG32k3a_t"
# The first eight numbers of a generator of cuRAND 13.0, for a seed, a subsequence and an offset.
FIRST = {
    (XORWOW, (0, 0, 0)): "bd7f03b6 703e556d 845af0c5 283067fd 1245241f 7666f33f 3a46d453 5450d66d",
    (PHILOX, (0, 0, 0)): "6627e8d5 e169c58d bc57ac4c 9b00dbd8 f8e4cca4 5cb200db b1a574eb 097eff67",
    (MRG, (0, 0, 0)): "2083cd07 518b05c4 4f26d091 d36ab334 38bcbcf8 888c99a3 7b1404a8 5b05f8e6",
    (XORWOW, (1234, 5, 6)): "b0335a0d c7c04273 d8577152 18c2f892 45ebfbe1 291c2b37 84bfaa09 20458741",
    (PHILOX, (1234, 5, 6)): "32773955 72c26332 26a9bd1b d88ecb0d 088f2111 d1e85602 c19c9fa2 382fe640",
    (MRG, (1234, 5, 6)): "5d647078 7b4fe4e9 1bfc281d 28a56de6 3765d63c da9da40e 8b8998e1 e9865b66",
    (XORWOW, (2**40, 100000, 2**33 + 7)): "e8c61115 99654d1c f9b88659 4b704d8b c1b75396 27797bcd 4777beee 90e10ee9",
    (PHILOX, (2**40, 100000, 2**33 + 7)): "cdee5983 a86a9d57 caebcc1b 8b5d5c7d 6ffa60e8 a03b42fc 2f026334 574592c2",
    (MRG, (2**40, 100000, 2**33 + 7)): "e0079c8f 89c31177 d93fc095 a0ac39cb c01e1ea3 bfdaaefa 398671f3 47668253",
}
# Counter and key, and what ten rounds make of them: the known answers that come with Random123 1.14.
PHILOX_ANSWERS = {
    ("0" * 32, "0" * 16): "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ("f" * 32, "f" * 16): "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ("243f6a8885a308d313198a2e03707344", "a4093822299f31d0"): "d16cfe09 94fdcceb 5001e420 24126ea1",
}
# MRG32k3a from a state of 12345, as L'Ecuyer's program prints them.
MRG_UNIFORM = (0.127011, 0.318527, 0.309186, 0.825847, 0.221630)


def left_by(software: Worker, folder: Path, bodies: list[str], kind: Any = np.uint32) -> list[Any]:
    """What statements leave in ``out``, for each, checked; kernels have one thread."""
    source, size = folder / "random.cu", 32 * np.dtype(kind).itemsize
    word = {np.uint32: "unsigned", np.float32: "float", np.float64: "double"}[kind]
    head = f'extern "C" __global__ void snippet_{{}}({word}* out)\n{{{{\n    if (threadIdx.x) return;\n    '
    kernels = [f"{head.format(i)}{body}\n}}\n" for i, body in enumerate(bodies)]
    source.write_text("#include <curand_kernel.h>\n" + "".join(kernels))
    image = compile_written(source, {}, software.call(describe_device).target)
    left = software.call(calls.run_snippets, image.path, len(bodies), size, 0)
    numbers = [np.frombuffer(each, kind) for each in left if isinstance(each, bytes)]
    assert len(numbers) == len(bodies), left
    return numbers


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def of_state(state: str, arguments: tuple[int, int, int], rest: str) -> str:
    seed, subsequence, offset = (f"{argument}ull" for argument in arguments)
    return f"{state} state; curand_init({seed}, {subsequence}, {offset}, &state); {rest}"


EIGHT = "for (int i = 0; i < 8; ++i) out[i] = curand(&state);"


def test_generators_have_the_bits_of_curand(software: Worker, tmp_path: Path) -> None:
    left = left_by(software, tmp_path, [of_state(*case, EIGHT) for case in FIRST])
    for case, wanted, got in zip(FIRST, FIRST.values(), left, strict=True):
        assert [f"{each:08x}" for each in got[:8]] == wanted.split(), case


def test_philox_gives_the_known_answers(software: Worker, tmp_path: Path) -> None:
    bodies = []
    for counter, key in PHILOX_ANSWERS:
        low, high = (int(counter[at + 8 : at + 16] + counter[at : at + 8], 16) for at in (0, 16))
        seed = int(key[8:] + key[:8], 16)
        skips = f"for (int i = 0; i < 4; ++i) skipahead({low}ull, &state); "  # an offset is of single numbers
        bodies.append(of_state(PHILOX, (seed, high, 0), skips + EIGHT.replace("8", "4")))
        bodies.append(of_state(PHILOX, (seed, high, 0), skips + "*reinterpret_cast<uint4*>(out) = curand4(&state);"))
    for place, got in enumerate(left_by(software, tmp_path, bodies)):
        assert got[:4].tolist() == words(list(PHILOX_ANSWERS.values())[place // 2])


def test_mrg32k3a_gives_the_published_numbers(software: Worker, tmp_path: Path) -> None:
    body = of_state(MRG, (0, 0, 0), "for (int i = 0; i < 5; ++i) out[i] = curand_uniform_double(&state);")
    (got,) = left_by(software, tmp_path, [body], np.float64)
    np.testing.assert_allclose(got[:5], MRG_UNIFORM, atol=6e-7)


def stepped(state: list[int]) -> list[int]:
    """XORWOW's next five words, by Marsaglia's formula."""
    t = state[0] ^ state[0] >> 2
    return [*state[1:], (state[4] ^ state[4] << 4 ^ t ^ t << 1) % 2**32]


@pytest.mark.slow
def test_subsequences_of_xorwow_are_that_far_apart(software: Worker, tmp_path: Path) -> None:
    """2^67 steps, by squaring the map of one step 67 times."""

    def apply(columns: list[int], vector: int) -> int:
        made = 0
        for bit, column in enumerate(columns):
            made ^= column if vector >> bit & 1 else 0
        return made

    def joined(state: list[int]) -> int:
        return sum(word << 32 * place for place, word in enumerate(state))

    def split(vector: int) -> list[int]:
        return [vector >> 32 * place & 0xFFFFFFFF for place in range(5)]

    columns = [joined(stepped(split(1 << bit))) for bit in range(160)]
    for _ in range(67):
        columns = [apply(columns, column) for column in columns]
    state = "state.v[0], state.v[1], state.v[2], state.v[3], state.v[4], state.d"
    bodies = [
        of_state(XORWOW, (7, number, 0), f"unsigned v[] = {{{state}}}; for (int i = 0; i < 6; ++i) out[i] = v[i];")
        for number in (0, 1, 2)
    ]
    begin, first, second = ([int(word) for word in got[:6]] for got in left_by(software, tmp_path, bodies))
    assert split(apply(columns, joined(begin[:5]))) == first[:5]
    assert split(apply(columns, joined(first[:5]))) == second[:5]
    assert begin[5] == first[5] == second[5]


@pytest.mark.once
@pytest.mark.parametrize("state", [XORWOW, PHILOX, MRG])
def test_an_offset_skips_so_many_numbers(software: Worker, tmp_path: Path, state: str) -> None:
    skip = "skipahead_subsequence" if state == MRG else "skipahead_sequence"
    bodies = [
        of_state(state, (3, 1, 0), "for (int i = 0; i < 21; ++i) curand(&state); " + EIGHT),
        of_state(state, (3, 1, 21), EIGHT),
        of_state(state, (3, 0, 20), f"skipahead(1ull, &state); {skip}(1ull, &state); {EIGHT}"),
    ]
    one, other, third = left_by(software, tmp_path, bodies)
    assert one[:8].tolist() == other[:8].tolist() == third[:8].tolist()


@pytest.mark.once
@pytest.mark.parametrize("state", [XORWOW, PHILOX, MRG])
def test_uniform_numbers_are_made_of_the_bits(software: Worker, tmp_path: Path, state: str) -> None:
    body = of_state(state, (5, 0, 0), "for (int i = 0; i < 8; ++i) out[i] = curand_uniform(&state);")
    (got,) = left_by(software, tmp_path, [body], np.float32)
    (bits,) = left_by(software, tmp_path, [of_state(state, (5, 0, 0), EIGHT)])
    np.testing.assert_allclose(got[:8], bits[:8] / 2**32, rtol=1e-6)
    assert ((got[:8] > 0) & (got[:8] <= 1)).all()


MOMENTS = {
    "curand_normal(&state)": (0.0, 1.0),
    "curand_normal2(&state).y": (0.0, 1.0),
    "curand_normal_double(&state)": (0.0, 1.0),
    "curand_normal2_double(&state).x": (0.0, 1.0),
    "log(curand_log_normal(&state, 2.0f, 0.5f))": (2.0, 0.5),
    "log(curand_log_normal_double(&state, 2.0, 0.5))": (2.0, 0.5),
    "log(curand_log_normal2(&state, 2.0f, 0.5f).x)": (2.0, 0.5),
    "curand_poisson(&state, 3.0)": (3.0, 3**0.5),
    "curand_poisson(&state, 400.0)": (400.0, 20.0),
    "curand_poisson(&state, 10000.0)": (10000.0, 100.0),
    "curand_uniform_double(&state)": (0.5, 12**-0.5),
}
COUNT = 4000


@pytest.mark.once
@pytest.mark.parametrize("state", [XORWOW, PHILOX, MRG])
def test_distributions_have_their_mean_and_deviation(software: Worker, tmp_path: Path, state: str) -> None:
    """Within five times the error that a mean of so many numbers has; and so for the deviation."""
    loop = f"for (int i = 0; i < {COUNT}; ++i) {{{{ const double v = {{}}; x += v; y += v * v; }}}}"
    sums = f"double x = 0, y = 0; {loop} out[0] = x, out[1] = y;"
    left = left_by(software, tmp_path, [of_state(state, (11, 0, 0), sums.format(call)) for call in MOMENTS], np.float64)
    for (call, (mean, deviation)), got in zip(MOMENTS.items(), left, strict=True):
        average = got[0] / COUNT
        assert abs(average - mean) < 5 * deviation / COUNT**0.5, call
        assert abs((got[1] / COUNT - average**2) ** 0.5 / deviation - 1) < 5 / COUNT**0.5, call


def test_sobol_numbers_fill_the_unit_interval(software: Worker, tmp_path: Path) -> None:
    """By direction numbers of the first dimension: those of van der Corput's sequence, in Gray code's order."""
    vectors = "unsigned v[32]; for (int i = 0; i < 32; ++i) v[i] = 0x80000000u >> i; "
    run = f"curand_init(v, {{}}u, &state); {EIGHT}"
    bodies = [
        f"{vectors}curandStateSobol32_t state; {run.format(0)}",
        f"{vectors}curandStateSobol32_t state; {run.format(5)}",
        f"{vectors}curandStateScrambledSobol32_t state; {run.format('77u, 0')}",
    ]
    plain, later, scrambled = (each[:8].tolist() for each in left_by(software, tmp_path, bodies))
    assert plain == [each << 29 for each in (0, 4, 6, 2, 3, 7, 5, 1)]
    assert later[:3] == plain[5:]
    assert scrambled == [each ^ 77 for each in plain]
