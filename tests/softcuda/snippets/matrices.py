"""Matrices of 8 x 8 elements between shared memory and the registers of a warp: ldmatrix, stmatrix and movmatrix."""

from __future__ import annotations

from tests.softcuda.snippets.snippet import Snippet, of

# Element number i of shared memory is i: rows of eight, matrices of eight rows.
FILLED = "__shared__ __align__(16) unsigned short tile[256]; for (int i = 0; i < 8; ++i) tile[8 * t + i] = 8 * t + i; __syncwarp();"
EMPTY = (
    "__shared__ __align__(16) unsigned short tile[256]; for (int i = 0; i < 8; ++i) tile[8 * t + i] = 0; __syncwarp();"
)
ADDRESS = "const unsigned s = (unsigned)__cvta_generic_to_shared(tile + 8 * t); unsigned w[4] = {};"
PACKED = " for (int j = 0; j < 4; ++j) r |= (unsigned long long)((w[j] & 255) | (w[j] >> 8 & 0xff00)) << 16 * j;"
REGISTERS = ("{%0}", "{%0, %1}", "{%0, %1, %2, %3}")


def elements(t: int, count: int, transposed: bool) -> int:
    """The numbers of a lane's elements of each matrix, a byte each."""
    made = 0
    for i in range(2 * count):
        row, column = t // 4, 2 * (t % 4) + i % 2
        made |= (64 * (i // 2) + (8 * column + row if transposed else 8 * row + column)) << 8 * i
    return made


def loaded(name: str, count: int, transposed: bool, blank: str = " ") -> Snippet:
    registers = ", ".join(f'"=r"(w[{j}])' for j in range(count))
    text = f"{name}{blank}{REGISTERS[count // 2]}, [%{count}];"
    return of(
        "L",
        f'{FILLED} {ADDRESS} asm volatile("{text}" : {registers} : "r"(s));{PACKED}',
        lambda t: elements(t, count, transposed),
    )


def stored(name: str, count: int, transposed: bool) -> Snippet:
    """Each lane brings elements by their numbers, and reads the row of the lane across."""
    brought = "8 * (2 * (t % 4) + e) + t / 4" if transposed else "2 * t + e"
    registers = ", ".join(f'"r"(w[{j}])' for j in range(count))
    text = f"{name} [%{count}], {REGISTERS[count // 2]};"
    return of(
        "L",
        f"{EMPTY} {ADDRESS} for (int j = 0; j < 4; ++j) for (int e = 0; e < 2; ++e) w[j] |= (64 * j + {brought}) << 16 * e;"
        f' asm volatile("{text}" :: {registers}, "r"(s) : "memory"); __syncwarp();'
        " for (int i = 0; i < 8; ++i) r |= (unsigned long long)tile[8 * (31 - t) + i] << 8 * i;",
        lambda t: sum((8 * (31 - t) + i) << 8 * i for i in range(8)) if 31 - t < 8 * count else 0,
    )


MATRICES = [
    loaded("ldmatrix.sync.aligned.m8n8.x1.shared.b16", 1, False),
    loaded("ldmatrix.sync.aligned.m8n8.x2.shared.b16", 2, False),
    loaded("ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4, False),
    loaded("ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4, False, blank=""),
    loaded("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16", 4, False),
    loaded("ldmatrix.sync.aligned.x1.trans.m8n8.shared.b16", 1, True),
    loaded("ldmatrix.sync.aligned.x2.m8n8.shared.trans.b16", 2, True),
    loaded("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 4, True),
    stored("stmatrix.sync.aligned.m8n8.x1.shared.b16", 1, False),
    stored("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16", 2, True),
    stored("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16", 4, False),
    stored("stmatrix.sync.aligned.x4.trans.m8n8.shared.b16", 4, True),
    of("u", 'asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"((2 * t + 1) << 16 | 2 * t));',
       lambda t: (8 * (2 * (t % 4) + 1) + t // 4) << 16 | (16 * (t % 4) + t // 4)),
]  # fmt: skip
