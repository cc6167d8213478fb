"""Makes an unset variable of a checked kernel a NaN, in the assembly that g++ writes.

With -ftrivial-auto-var-init=pattern, g++ fills what nothing set with bytes 0xFE: -1.7e38 as a float. That shows in a
sum, but vanishes where it is multiplied by a zero. So each such word is made 0xFFFEFEFE, which is a NaN as float32
and, twice, as float64; as an integer it is -65,794, an index that leads out of every array.
"""

from __future__ import annotations

import re

# Of g++ 12 and later. Without the last three, what is set in one branch alone is taken to be set in all.
FLAGS = ["-ftrivial-auto-var-init=pattern", "-fno-tree-fre", "-fno-tree-pre", "-fno-code-hoisting"]
WORD, LONG = -16843010, -72340172838076674  # 0xFE, four and eight times
NAN, TWO_NANS = (int.from_bytes(b"\xfe\xfe\xfe\xff" * n, "little", signed=True) for n in (1, 2))
NUMBERS = {str(number): str(nan) for number, nan in ((WORD, NAN), (LONG, TWO_NANS))}
NUMBERS |= {str(number % 2**32): str(NAN % 2**32) for number in (WORD,)} | {str(LONG % 2**64): str(TWO_NANS % 2**64)}
# What a kernel's own constant of such a value looks like in g++'s last intermediate form, where what is unset has no
# value yet: the numbers, the same as float32 and float64, bytes of a vector, and memset.
OWN = re.compile(rf"{'|'.join(NUMBERS)}|-1\.694739\d*e\+38|-5\.3130\d*e\+303|\{{ (?:254|-2), |memset \([^;]*, 254, ")


def with_nans(assembly: str, intermediate: str) -> str:
    """The assembly with NaNs for what is unset; as it is where the kernel's own constants could be taken for that.

    ``intermediate``: of -fdump-tree-optimized. Only x86-64's instructions are known here; elsewhere what is unset
    stays the huge number.
    """
    if OWN.search(intermediate):
        return assembly
    assembly = re.sub(rf"(?<![\w.-])(?:{'|'.join(NUMBERS)})(?![\w.])", lambda match: NUMBERS[match[0]], assembly)
    assembly = re.sub(
        r"(?<=:\n)(?:\t\.byte\t-2\n){8,}",
        lambda match: "".join(f"\t.byte\t{-1 if i % 4 == 3 else -2}\n" for i in range(match[0].count("\n"))),
        assembly,
    )
    # Large arrays: rdi, esi and edx are set in any order, and then memset is called.
    return re.sub(r"\$254, %esi(?=\n(?:(?!\t(?:call|j|ret))[^\n]*\n){0,40}\tcall\t\*?memset)", "$255, %esi", assembly)
