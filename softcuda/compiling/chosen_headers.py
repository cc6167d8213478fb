"""Chooses the headers of device functions that a .cu file needs, by the names in it.

Together they would take longer to compile than a small kernel does. A name too many costs only time.
"""

from __future__ import annotations

import re

# A header, and what the names look like that are in it.
NAMES = {
    "softcuda/intrinsics/integers.h":
        r"__(?:brev(?:ll)?|byte_perm|fns|nv_bswap\d+|funnelshift_\w+|u?mul24|u?mulhi|u?mul64hi|u?sad|u?r?hadd|dp[24]a\w*)"
        r"|u?mul(?:24|hi|64hi)",
    "softcuda/intrinsics/bits.h":
        r"__double2(?:hi|lo)int|__hiloint2double|__is(?:Global|Shared|Constant|Local)|__cvta_\w+",
    "softcuda/intrinsics/simd.h": r"__v(?:abs|add|avg|cmp|hadd|iadd|ibm|imax|imin|max|min|neg|sad|set|sub)\w+",
    "softcuda/intrinsics/rounding.h": r"__\w+_r[nzud]",
    "softcuda/intrinsics/special_functions.h":
        r"(?:rcbrt|rhypot|(?:sin|cos|sincos)pi|erfcx|erfc?inv|normcdf(?:inv)?|r?norm(?:[34]d)?|cyl_bessel_i[01])f?"
        r"|(?:u|ll|ull)(?:min|max)",
    "softcuda/textures.h":
        r"cuda(?:Texture|Surface|AddressMode|FilterMode|ReadMode|ChannelFormat|BoundaryMode)\w+"
        r"|CU(?:tex|surf)Object|(?:tex|surf)(?:[123]D|Cubemap)\w*",
    "softcuda/ptx_matrices.h": r"[nt]?(?:mma|(?:ld|st)matrix|movmatrix)|rna",  # n, t: of \\n and \\t in front
    # nvcc includes it unasked.
    "cuda/type_traits": r"enable_if(?:_t)?|is_(?:same|integral|floating_point|arithmetic|base_of)(?:_v)?"
                        r"|conditional(?:_t)?|(?:decay|remove_\w+)(?:_t)?|void_t|true_type|false_type",
    "softcuda/ptx.h": r"asm|__asm|__asm__|__barrier_sync(?:_count)?",
}  # fmt: skip


# CUDA's headers of cuBLAS include these, and so does the stand-in for them where it matters: it has the word.
BROUGHT = {"cuda_fp16.h": r"(?:__)?half2?", "cuda_bf16.h": r"(?:__)?nv_bfloat16\w*"}
BRINGS = "softcuda_brings_narrow_floats"


def chosen(text: str) -> list[str]:
    """The headers that have a name in the text, in the order of the table."""
    words = "\n".join({*re.findall(r"\w+", text.replace("mma.h", ""))})  # which is no instruction's name
    table = {**BROUGHT, **NAMES} if BRINGS in words else NAMES
    return [header for header, names in table.items() if re.search(f"^(?:{names})$", words, re.MULTILINE)]


# Headers that CUDA's own bring, and that are included where g++ does not know a name of theirs.
BRINGING = {"std": ["algorithm", "cmath", "limits", "utility"], "thrust": ["thrust/tuple.h", "thrust/functional.h"],
            "__": ["softcuda/without_mask.h"]}  # fmt: skip
UNKNOWN = re.compile(
    r"(?:is not a member of|in namespace) [‘'](std|thrust)[’']"
    r"|(?:no arguments to|error:) [‘'](__)(?:shfl(?:_up|_down|_xor)?|ballot|any|all)[’']"
)


def brought(errors: str) -> list[str]:
    """The headers that have a name which g++ does not know."""
    found = dict.fromkeys(one or other for one, other in UNKNOWN.findall(errors))
    return [header for space in found for header in BRINGING[space]]
