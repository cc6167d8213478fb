"""The PTX instructions that kernels may use, one a line: how each is written, what it takes, and C++ that does it.

First column: the instruction. What stands in [] may be left out, {a|b} is one of several, and a word in capitals is one
of CLASSES. Second column: types of the results, =, and types of the operands. A type is one of PTX's; or T, D, S (what
the first column has there); or W (twice as wide as T); T* (any number of T); @ (an address), @shared (its number in
shared memory); `any` (as it is written). One in [] may be left out. Third column: an expression with the operands
a, b, c, e or ALL of them, the rounding R, the number N of results or stored values, what a class stands for, and \\1
for what the first {} does. Behind ;; it says what a second result is, as of d|p. The functions are in ptx.h.

Everywhere .ftz and .sat of float32 are done, and a cache policy is left out (ptx.py).
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

TYPES = {
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t",
    "b8": "uint8_t", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t",
    "f32": "float", "f64": "double", "pred": "bool", "f16": "softcuda_ptx::Half", "bf16": "softcuda_ptx::Bfloat",
    "f16x2": "softcuda_ptx::Pair<softcuda_ptx::Half>", "bf16x2": "softcuda_ptx::Pair<softcuda_ptx::Bfloat>",
}  # fmt: skip
WIDE = {"u16": "u32", "u32": "u64", "s16": "s32", "s32": "s64"}
ROUNDINGS = {"rn": "nearest", "rz": "to_zero", "rm": "down", "rp": "up"}


def shapes(*several: str) -> str:
    """Return a pattern for the shape of a product; its rows are \\8 and its depth \\9."""
    return rf"(?=m(?:{'|'.join(several)})\.)m(?P<_8>\d+)n8k(?P<_9>\d+)"


INTEGERS = "u16|u32|u64|s16|s32|s64"
CACHE = r"(?:ca|cg|cs|lu|cv|wb|wt|nc|L1::\w+|L2::\w+)"
CLASSES = {
    "I": rf"(?P<T>{INTEGERS})", "L": r"(?P<T>u32|u64|s32|s64)", "Z": r"(?P<T>s16|s32|s64)",
    "H": r"(?P<T>u16|u32|s16|s32)",
    "B": r"(?P<T>b16|b32|b64)", "BB": r"(?P<T>b32|b64)", "P": r"(?P<T>pred|b16|b32|b64)", "F": r"(?P<T>f32|f64)",
    "NARROW": r"(?P<T>f16x2|bf16x2|f16|bf16)", "X": rf"(?P<T>{INTEGERS}|b16|b32|b64|f32|f64)",
    "Y": rf"(?P<T>{INTEGERS}|b16|b32|b64|f32|f64|pred)", "M": rf"(?P<T>b8|u8|s8|{INTEGERS}|b16|b32|b64|f32|f64)",
    "DI": rf"(?P<D>u8|s8|{INTEGERS})", "SI": rf"(?P<S>u8|s8|{INTEGERS})",
    "DF": r"(?P<D>f32|f64|f16|bf16)", "SF": r"(?P<S>f32|f64|f16|bf16)", "PAIR": r"(?P<D>f16x2|bf16x2)",
    "RND": r"(?P<R>rn|rz|rm|rp)", "INT": r"(?P<R>rn|rz|rm|rp)i",
    "CMP": r"(?P<CMP>eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan)", "BOOL": "(?P<BOOL>and|or|xor)",
    "SEM": r"(?P<SEM>weak|relaxed|acquire|release|acq_rel|volatile)", "SCOPE": r"(?P<SCOPE>cta|cluster|gpu|sys)",
    "SPACE": r"(?P<SPACE>shared::cta|shared|global|local|const)", "VEC": r"(?:v2|v4)",
    "HINT": rf"{CACHE}(?:\.{CACHE})*",
    "HOW": "(?P<HOW>satfinite)", "MBYTES": shapes("8n8k16", "16n8k(?:16|32)"),
    "MNIBBLES": shapes("8n8k32", "16n8k(?:32|64)"), "MBITS": shapes("8n8k128", "16n8k(?:128|256)"),
    "OP": r"(?P<OP>add|min|max|inc|dec|and|or|xor|exch)",
}  # fmt: skip

TABLE = r"""
{add|sub|mul}[.RND][.ftz][.sat].F            T = T T          \1<R>(a, b)
{fma|mad}[.RND][.ftz][.sat].F                T = T T T        fused<R>(a, b, c)
{add|sub|mul}[.rn][.ftz].NARROW              T = T T          \1_narrow(a, b)
fma.rn[.ftz].NARROW                          T = T T T        fused_narrow(a, b, c)
{tanh|ex2}.approx[.ftz].NARROW               T = T            \1_narrow(a)
{add|sub}.I                                  T = T T          wrapped_\1(a, b)
{add|sub}.sat.s32                            s32 = s32 s32    saturated_\1(a, b)
mul.lo.I                                     T = T T          T(product(a, b))
mul.hi.I                                     T = T T          T(product(a, b) >> 8 * sizeof(T))
mul.wide.H                                   W = T T          W(product(a, b))
mad.lo.I                                     T = T T T        wrapped_add(T(product(a, b)), c)
mad.hi.I                                     T = T T T        wrapped_add(T(product(a, b) >> 8 * sizeof(T)), c)
mad.wide.H                                   W = T T W        wrapped_add(W(product(a, b)), c)
mul24.lo.s32                                 s32 = s32 s32    __mul24(a, b)
mul24.lo.u32                                 u32 = u32 u32    __umul24(a, b)
mad24.lo.s32                                 s32 = s32 s32 s32    wrapped_add(__mul24(a, b), c)
mad24.lo.u32                                 u32 = u32 u32 u32    __umul24(a, b) + c
sad.I                                        T = T T T        wrapped_add(c, difference(a, b))
{add|sub}.cc.L                               T = T T          \1_cc(a, b)
{addc|subc}.L                                T = T T          \1(a, b)
{addc|subc}.cc.L                             T = T T          \1_cc(a, b)
mad.{lo|hi}.cc.L                             T = T T T        add_cc(\1<T>(product(a, b)), c)
madc.{lo|hi}.L                               T = T T T        addc(\1<T>(product(a, b)), c)
madc.{lo|hi}.cc.L                            T = T T T        addc_cc(\1<T>(product(a, b)), c)
{div|rem}.I                                  T = T T          \1_integer(a, b)
div.{approx|full}[.ftz].f32                  f32 = f32 f32    a / b
div.RND[.ftz].F                              T = T T          div<R>(a, b)
rcp.{approx}[.ftz].F                         T = T            T(1) / a
rcp.RND[.ftz].F                              T = T            div<R>(T(1), a)
sqrt.{approx}[.ftz].f32                      f32 = f32        root<R>(a)
sqrt.RND[.ftz].F                             T = T            root<R>(a)
rsqrt.approx[.ftz].F                         T = T            T(1.0 / root<R>(double(a)))
{sin|cos|tanh|ex2|lg2}.approx[.ftz].f32      f32 = f32        \1(a)
abs[.ftz].F                                  T = T            absolute(a)
neg[.ftz].F                                  T = T            -a
abs.Z                                        T = T            a < 0 ? wrapped_sub(T(0), a) : a
neg.Z                                        T = T            wrapped_sub(T(0), a)
{min|max}[.ftz].F                            T = T T          \1_float(a, b)
{min|max}[.ftz].NaN.f32                      f32 = f32 f32    with_nan(\1_float(a, b), a, b)
{min|max}.I                                  T = T T          \1_integer(a, b)
copysign.F                                   T = T T          with_sign(b, a)

{and|or|xor}.P                               T = T T          \1_bits(a, b)
not.P                                        T = T            not_bits(a)
cnot.B                                       T = T            T(a == 0)
lop3.b32                                     b32 = b32 b32 b32 u32    lop3(a, b, c, e)
shl.B                                        T = T u32        b < 8 * sizeof(T) ? T(uint64_t(a) << b) : T(0)
shr.X                                        T = T u32        shifted_right(a, b)
shf.{l|r}.wrap.b32                           b32 = b32 b32 u32    __funnelshift_\1(a, b, c)
shf.{l|r}.clamp.b32                          b32 = b32 b32 u32    __funnelshift_\1c(a, b, c)
popc.BB                                      u32 = T          uint32_t(__builtin_popcountll(a))
clz.BB                                       u32 = T          leading_zeros(a)
brev.BB                                      T = T            softcuda::reversed(a)
bfind.L                                      u32 = T          bfind(a)
bfind.shiftamt.L                             u32 = T          bfind(a) == ~0u ? ~0u : 8 * sizeof(T) - 1 - bfind(a)
fns.b32                                      b32 = b32 b32 s32    softcuda::nth_set(a, b, c)
bfe.L                                        T = T u32 u32    bfe(a, b, c)
bfi.BB                                       T = T T u32 u32  bfi(a, b, c, e)
vabsdiff4.u32.u32.u32.add                    u32 = u32 u32 u32    sum_of_differences(a, b, c)
prmt.b32                                     b32 = b32 b32 u32    prmt(a, b, c)
prmt.b32.{f4e|b4e|rc8|ecl|ecr|rc16}          b32 = b32 b32 u32    prmt(a, b, selectors_\1(c))
dp4a.u32.u32                                 u32 = u32 u32 u32    __dp4a(a, b, c)
dp4a.s32.s32                                 s32 = s32 s32 s32    __dp4a(a, b, c)

mov.Y                                        T = T            a
selp.X                                       T = T T pred     c ? a : b
slct[.ftz].X.s32                             T = T T s32      c >= 0 ? a : b
slct[.ftz].X.f32                             T = T T f32      c >= 0 ? a : b
setp.CMP[.ftz].X                             pred = T T       compare_CMP(a, b) ;; !compare_CMP(a, b)
setp.CMP.BOOL[.ftz].X                 pred = T T pred  BOOL_of(compare_CMP(a, b), c) ;; BOOL_of(!compare_CMP(a, b), c)
set.CMP[.ftz].{u32|s32}.X                    u32 = T T        compare_CMP(a, b) ? ~0u : 0u
set.CMP[.ftz].f32.X                          f32 = T T        compare_CMP(a, b) ? 1.0f : 0.0f
cvt.DI.SI                                    D = S            D(a)
cvt.sat.DI.SI                                D = S            to_range<D>(a)
cvt.INT[.ftz][.sat].DI.SF                    D = S            softcuda::integer_of<D>(wide(a), R)
cvt.RND[.ftz][.sat].DF.SI                    D = S            from_integer<D, R>(a)
cvt[.RND][.ftz][.sat].DF.SF                  D = S            converted<D, R>(wide(a))
cvt.INT[.ftz][.sat].f32.f32                  f32 = f32        float(softcuda::whole(a, R))
cvt.INT.f64.f64                              f64 = f64        softcuda::whole(a, R)
cvt.{rn|rz}.PAIR.f32                         D = f32 f32      pair_of<D, rounding_\1>(a, b)
cvt.pack.sat.{u8|s8}.s32.b32                 b32 = s32 s32 b32    c << 16 | packed_\1(a) << 8 | packed_\1(b)
cvt.pack.sat.{u16|s16}.s32                   b32 = s32 s32    packed_\1(a) << 16 | packed_\1(b)
cvta[.to].{global|local|const|param}.u64     u64 = u64        a
cvta.to.shared[::cta].u64                    u64 = u64        __cvta_generic_to_shared(reinterpret_cast<const void*>(a))
cvta.shared[::cta].u64                       u64 = u64        reinterpret_cast<uint64_t>(__cvta_shared_to_generic(a))
isspacep.{global|shared|const|local}[::cta]  pred = u64       is_in_\1(a)

ld[.SPACE].nc[.HINT][.VEC].M                 T* = @           load_read_only<T, N>(a)
ld[.SEM][.SCOPE][.SPACE][.HINT][.VEC].M      T* = @           load_SEM<T, N>(a)
ld[.SPACE].SEM[.SCOPE][.HINT][.VEC].M        T* = @           load_SEM<T, N>(a)
st[.SEM][.SCOPE][.SPACE][.HINT][.VEC].M      = @ T*           store_SEM<T>(ALL)
st[.SPACE].SEM[.SCOPE][.HINT][.VEC].M        = @ T*           store_SEM<T>(ALL)
atom[.SEM][.SCOPE][.SPACE].OP.X              T = @ T          atom_OP<softcuda_ptx::order_SEM, softcuda_ptx::scope_SCOPE>(static_cast<T*>(a), b)
atom[.SEM][.SCOPE][.SPACE].cas.B             T = @ T T        atom_cas<softcuda_ptx::order_SEM, softcuda_ptx::scope_SCOPE>(static_cast<T*>(a), b, c)
red[.SEM][.SCOPE][.SPACE].OP.X               = @ T            atom_OP<softcuda_ptx::order_SEM, softcuda_ptx::scope_SCOPE>(static_cast<T*>(a), b)
{prefetch|prefetchu}[.SPACE].{L1|L2}[::evict_\w+]    = @      ((void)0)
{applypriority|discard}[.global].L2[::\w+]   = @ u32          ((void)0)
createpolicy.fractional.L2::\w+[.L2::\w+].b64    b64 = [f32]      uint64_t(0)

bar[.cta].sync                               = u32 [u32]      bar_sync(ALL)
barrier[.cta].sync[.aligned]                 = u32 [u32]      bar_sync(ALL)
bar[.cta].arrive                             = u32 u32        bar_arrive(a, b)
barrier[.cta].arrive[.aligned]               = u32 u32        bar_arrive(a, b)
{bar|barrier}[.cta].red.popc[.aligned].u32   u32 = u32 pred   bar_red<0>(a, b)
{bar|barrier}[.cta].red.and[.aligned].pred   pred = u32 pred  bar_red<1>(a, b) != 0
{bar|barrier}[.cta].red.or[.aligned].pred    pred = u32 pred  bar_red<2>(a, b) != 0
redux.sync.{add|min|max}.u32                 u32 = u32 u32    __reduce_\1_sync(b, a)
redux.sync.{add|min|max}.s32                 s32 = s32 u32    __reduce_\1_sync(b, a)
redux.sync.{and|or|xor}.b32                  b32 = b32 u32    __reduce_\1_sync(b, a)
bar.warp.sync                                = u32            __syncwarp(a)
membar.{cta|gl|sys}                          =                fence_\1()
fence[.{sc|acq_rel}].{cta|cluster|gpu|sys}   =                fence_\2()
fence.proxy.\w+[::\w+][.SPACE]               =                ((void)0)
activemask.b32                               b32 =            __activemask()
elect.sync                                   b32 = b32        elected(a) ;; is_elected(a)
vote.sync.ballot.b32                         b32 = pred b32   __ballot_sync(b, a)
vote.sync.any.pred                           pred = pred b32  __any_sync(b, a) != 0
vote.sync.all.pred                           pred = pred b32  __all_sync(b, a) != 0
shfl.sync.{up|down|bfly|idx}.b32             b32 = b32 u32 u32 u32    shfl_\1(a, b, c, e) ;; shfl_\1_is_inside(b, c)
nanosleep.u32                                = u32            __nanosleep(a)
griddepcontrol.wait                          =                wait_for_grid()
griddepcontrol.launch_dependents             =                ((void)0)
trap                                         =                stop("trap")
brkpt                                        =                stop("brkpt")
pmevent                                      = u32            ((void)0)

mbarrier.init[.SPACE].b64                    = @ u32          mbarrier_init(a, b)
mbarrier.inval[.SPACE].b64                   = @              mbarrier_inval(a)
mbarrier.{arrive|arrive_drop}[.noComplete][.SEM][.SCOPE][.SPACE].b64    b64 = @ [u32]    mbarrier_\1(ALL)
mbarrier.{arrive|arrive_drop}.expect_tx[.SEM][.SCOPE][.SPACE].b64    b64 = @ u32    mbarrier_\1_expect_tx(a, b)
mbarrier.{expect_tx|complete_tx}[.SEM][.SCOPE][.SPACE].b64    = @ u32    mbarrier_\1(a, b)
mbarrier.{test_wait|try_wait}[.SEM][.SCOPE][.SPACE].b64    pred = @ b64 [u32]    mbarrier_state(ALL)
mbarrier.{test_wait|try_wait}.parity[.SEM][.SCOPE][.SPACE].b64    pred = @ u32 [u32]    mbarrier_parity(ALL)
mbarrier.pending_count.b64                   u32 = b64        mbarrier_pending_count(a)
fence.mbarrier_init.release.cluster          =                ((void)0)
cp.async.mbarrier.arrive[.SPACE].b64         = @              mbarrier_track(a)
cp.async.mbarrier.arrive.noinc[.SPACE].b64   = @              mbarrier_track_noinc(a)
cp.async.ca.shared[::cta].global[.L2::\w+][.L2::\w+]    = @shared @ any [any]    cp_async_ca_shared_global(ALL)
cp.async.cg.shared[::cta].global[.L2::\w+][.L2::\w+]    = @shared @ any [any]    cp_async_cg_shared_global(ALL)
cp.async.commit_group                        =                cp_async_commit_group()
cp.async.wait_group                          = any            cp_async_wait_group(a)
cp.async.wait_all                            =                cp_async_wait_all()

mma.sync.aligned.m16n8k{8|16}.row.col.{f16|f32}.f16.f16.{f16|f32}    b32* = b32* b32* b32*    mma<16, 8, \1>(\2(), f16(), f16(), \3(), ALL)
mma.sync.aligned.m16n8k{8|16}.row.col.f32.bf16.bf16.f32    b32* = b32* b32* b32*    mma<16, 8, \1>(f32(), bf16(), bf16(), f32(), ALL)
mma.sync.aligned.m16n8k{4|8}.row.col.f32.tf32.tf32.f32    b32* = b32* b32* b32*    mma<16, 8, \1>(f32(), tf32(), tf32(), f32(), ALL)
mma.sync.aligned.m16n8k{16|32}.row.col.{f16|f32}.{e4m3|e5m2}.{e4m3|e5m2}.{f16|f32}    b32* = b32* b32* b32*    mma<16, 8, \1>(\2(), \3(), \4(), \5(), ALL)
mma.sync.aligned.m16n8k{4|8|16}.row.col.f64.f64.f64.f64    b64* = b64* b64* b64*    mma<16, 8, \1>(f64(), f64(), f64(), f64(), ALL)
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64    b64* = b64* b64* b64*    mma<8, 8, 4>(f64(), f64(), f64(), f64(), ALL)
mma.sync.aligned.MBYTES.row.col[.HOW].s32.{s8|u8}.{s8|u8}.s32    b32* = b32* b32* b32*    mma<\8, 8, \9, softcuda_matrix::HOW>(s32(), \1(), \2(), s32(), ALL)
mma.sync.aligned.MNIBBLES.row.col[.HOW].s32.{s4|u4}.{s4|u4}.s32    b32* = b32* b32* b32*    mma<\8, 8, \9, softcuda_matrix::HOW>(s32(), \1(), \2(), s32(), ALL)
mma.sync.aligned.MBITS.row.col.s32.b1.b1.s32.{and|xor}.popc    b32* = b32* b32* b32*    mma<\8, 8, \9, softcuda_matrix::\1_popc>(s32(), b1(), b1(), s32(), ALL)
ldmatrix.sync.aligned[.m8n8].{x1|x2|x4}[.m8n8].shared[::cta].b16    b32* = @shared    ldmatrix<N, false, softcuda_matrix::\1>(a)
ldmatrix.sync.aligned[.m8n8].{x1|x2|x4}[.m8n8].trans[.m8n8].shared[::cta].b16    b32* = @shared    ldmatrix<N, true, softcuda_matrix::\1>(a)
ldmatrix.sync.aligned[.m8n8].{x1|x2|x4}[.m8n8].shared[::cta].trans.b16    b32* = @shared    ldmatrix<N, true, softcuda_matrix::\1>(a)
stmatrix.sync.aligned[.m8n8].{x1|x2|x4}[.m8n8].shared[::cta].b16    = @shared b32*    stmatrix<N, false, softcuda_matrix::\1>(ALL)
stmatrix.sync.aligned[.m8n8].{x1|x2|x4}[.m8n8].trans[.m8n8].shared[::cta].b16    = @shared b32*    stmatrix<N, true, softcuda_matrix::\1>(ALL)
stmatrix.sync.aligned[.m8n8].{x1|x2|x4}[.m8n8].shared[::cta].trans.b16    = @shared b32*    stmatrix<N, true, softcuda_matrix::\1>(ALL)
cvt.rna[.satfinite].tf32.f32                 b32 = f32        tf32_of(a)
movmatrix.sync.aligned.m8n8.trans.b16        b32 = b32        movmatrix(a)
"""  # noqa: E501  # a line an instruction

# What a special register is; those of each axis are made of the four that C++ has.
REGISTERS = {
    "laneid": "softcuda_ptx::thread_number() % 32", "warpid": "softcuda_ptx::thread_number() / 32",
    "nwarpid": "32u", "smid": "0u", "nsmid": "1u", "gridid": "uint64_t(1)", "WARP_SZ": "32",
    "clock": "uint32_t(softcuda_clock())", "clock_hi": "uint32_t(softcuda_clock() >> 32)",
    "clock64": "uint64_t(softcuda_clock())", "globaltimer": "uint64_t(softcuda_clock())",
    "globaltimer_lo": "uint32_t(softcuda_clock())", "globaltimer_hi": "uint32_t(softcuda_clock() >> 32)",
    "lanemask_eq": "1u << softcuda_ptx::thread_number() % 32",
    "lanemask_lt": "(1u << softcuda_ptx::thread_number() % 32) - 1",
    "lanemask_le": "(2u << softcuda_ptx::thread_number() % 32) - 1",
    "lanemask_gt": "0u - (2u << softcuda_ptx::thread_number() % 32)",
    "lanemask_ge": "0u - (1u << softcuda_ptx::thread_number() % 32)",
}  # fmt: skip
REGISTERS |= {
    f"{name}.{axis}": f"{variable}.{axis}"
    for name, variable in {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}.items()
    for axis in "xyz"
}


class Row(NamedTuple):
    """A line of the table. ``results`` and ``operands`` are types; ``second`` is "" where there is no second result."""

    pattern: re.Pattern[str]
    results: list[str]
    operands: list[str]
    expression: str
    second: str


@cache
def rows(opcode: str) -> list[Row]:
    """Return the lines for an instruction, which is known by its name in front of the first dot."""
    lines = []
    for line in filter(None, TABLE.split("\n")):
        heads = re.match(r"\{([\w|]+)\}|(\w+)", line)
        if heads and opcode in (heads[1] or heads[2]).split("|"):
            written, types, expression = re.split(r" {2,}", line, maxsplit=2)
            results, _, operands = types.partition("=")
            first, _, second = expression.partition(" ;; ")
            lines.append(Row(re.compile(regex(written)), results.split(), operands.split(), first, second))
    return lines


def regex(written: str) -> str:
    """Return a regular expression for the first column of the table."""
    parts, number = [], 0
    for token in re.findall(r"\\w\+|[A-Z]+(?![\w:])|\w+|.", written):
        number += token == "{"
        plain = {"[": "(?:", "]": ")?", "{": f"(?P<_{number}>", "}": ")", ".": r"\."}
        parts.append(plain.get(token) or CLASSES.get(token, token))
    return "".join(parts)
