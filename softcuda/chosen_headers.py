"""Chooses the headers of device functions that a .cu file needs, by the names in it.

Together they would take longer to compile than a small kernel does. A name too many costs only time.
"""

from __future__ import annotations

import re

# A header, and what the names look like that are in it.
NAMES = {
    "intrinsics/integers.h": r"__(?:brev(?:ll)?|byte_perm|fns|nv_bswap\d+|funnelshift_\w+|u?mul24|u?mulhi|u?mul64hi"
                             r"|u?sad|u?r?hadd|dp[24]a\w*)|u?mul(?:24|hi|64hi)",
    "intrinsics/bits.h": r"__double2(?:hi|lo)int|__hiloint2double|__is(?:Global|Shared|Constant|Local)|__cvta_\w+",
    "intrinsics/simd.h": r"__v(?:abs|add|avg|cmp|hadd|iadd|ibm|imax|imin|max|min|neg|sad|set|sub)\w+",
    "intrinsics/rounding.h": r"__\w+_r[nzud]",
    "intrinsics/special_functions.h": r"(?:rcbrt|rhypot|(?:sin|cos|sincos)pi|erfcx|erfc?inv|normcdf(?:inv)?"
                                      r"|r?norm(?:[34]d)?|cyl_bessel_i[01])f?|(?:u|ll|ull)(?:min|max)",
    "ptx.h": r"asm|__asm|__asm__|__barrier_sync(?:_count)?",
}  # fmt: skip


def chosen(text: str) -> list[str]:
    """The headers that have a name in the text, in the order of the table."""
    words = "\n".join({*re.findall(r"\w+", text)})
    return [header for header, names in NAMES.items() if re.search(f"^(?:{names})$", words, re.MULTILINE)]
