"""Changes the assembly that g++ writes, for the driver and the checker.

- Variables get gaps between them, and the driver gets tables of variables and kernels.
- An unset variable of a checked kernel becomes a NaN. With -ftrivial-auto-var-init=pattern, g++ fills what nothing set
  with bytes 0xFE: -1.7e38 as a float. That shows in a sum, but vanishes where it is multiplied by a zero. So each such
  word is made 0xFFFEFEFE, which is a NaN as float32 and, twice, as float64; as an integer it is -65,794, an index that
  leads out of every array.
- An index is checked where it is one of a thread's own array, which is named for the driver. g++ -fsanitize=bounds
  calls a function where an index is not one of an array whose size it knows, with a record of the place. It does so for
  shared arrays and members too, where an index past a row may be meant; an access past such an array is found by what
  lies around it. So a record is left empty but for an array that is declared inside a function, alone, and for the
  first index of it.
"""

from __future__ import annotations

import functools
import re
import struct
from pathlib import Path

RECORD = "softcuda_kernel"  # the variable that holds a kernel's record (kernels.py)
RED_ZONE = 128  # bytes between variables, which belong to none of them
MAX_SHARED = 48 * 1024
# Bytes that a launch adds to shared memory: dynamic_gap and dynamic_area of image.h say how much.
DYNAMIC_AREA = 232448 + 128

# What would run before main, for variables of the host such as those of <iostream>. The linker leaves out what nothing
# but such a section refers to.
NEVER_RUN = re.compile(r"^\s*\.section\s+\.(?:init_array|fini_array|ctors|dtors)\b.*$", re.MULTILINE)
LIBRARY = re.compile(r"(?:^|\s)_Z(?:GV)?N?K?St|(?:^|\s)__dso_handle")  # a variable of the C++ library's

INSTRUCTION_OR_LINE = re.compile(r"\t(?:[a-z]|\.loc\b|\.(?:byte|value|long|quad|string|uleb128|sleb128)\b)|\.L")


def with_red_zones(lines: list[str]) -> tuple[list[str], str]:
    """Return the assembly with gaps between variables, and a list of them at its end.

    What a function calls its own and static is shared memory; what lies in .data or .bss is a device variable.
    Returns the lines, and what is wrong with them: more shared memory than a block may have.
    """
    text = NEVER_RUN.sub('\t.section .softcuda_never_run,"e",@progbits', "\n".join(lines))
    objects = set(re.findall(r"^\s*\.type\s+(\S+),\s*[@%]object", text, re.MULTILINE))
    sizes = {name: int(size) for name, size in re.findall(r"^\s*\.size\s+(\S+),\s*(\d+)$", text, re.MULTILINE)}
    gap = f"\t.zero {RED_ZONE}"
    out = ['\t.section softcuda_shared,"aw"', "\t.balign 128", *hidden("softcuda_shared_first"), gap]
    symbols: list[tuple[str, int, int]] = []
    late: list[tuple[str, int, int]] = []  # zeroed variables that the linker would have placed: name, size, alignment
    section = ".text"
    for line in text.split("\n"):
        if INSTRUCTION_OR_LINE.match(line):  # nearly all of them
            out.append(line)
            continue
        if match := re.match(r"\s*\.section\s+([^,\s]+)|\s*(\.text|\.data|\.bss)\b", line):
            section = match[1] or match[2]
        label = re.match(r"(\S+):$", line)
        if (match := re.match(r"\s*\.comm\s+([^,]+),(\d+),(\d+)", line)) and not LIBRARY.search(line):
            late.append((match[1], int(match[2]), int(match[3])))
        elif label and label[1] in objects and (kind := kind_of(label[1], section)) is not None:
            out += [gap, line]
            symbols.append((label[1], sizes[label[1]], kind))
        elif not re.match(r"\s*\.local\s", line) or LIBRARY.search(line):
            out.append(line)
    for name, size, alignment in late:
        kind = SHARED if name.startswith("_ZZ") else DEVICE
        begin = [f'\t.section {SECTIONS[kind]},"aw"', f"\t.balign {max(alignment, 64)}", gap]
        out += [*begin, f"{name}:", f"\t.zero {size}"]
        symbols.append((name, size, kind))
    own = (f'\t.section {section},"aw"' for section in SECTIONS.values())
    for section in (*own, "\t.data", "\t.section .bss"):
        out += [section, gap]
    out += ['\t.section softcuda_shared,"aw"', *hidden("softcuda_shared_last")]
    out += ['\t.section softcuda_dynamic,"aw",@nobits', "\t.balign 128", gap, *hidden("softcuda_dynamic_area")]
    out += [f"\t.zero {DYNAMIC_AREA}", *symbol_table(symbols, text), *kernel_table(text)]
    return out, shared_too_large(symbols)


def hidden(label: str) -> list[str]:
    """Return a label that the other parts of an image see, and nothing else."""
    return [f"\t.globl {label}", f"\t.hidden {label}", f"{label}:"]


def table(label: str, entries: list[str], names: list[str]) -> list[str]:
    """Return a table in assembly between two labels, and the strings that its entries name."""
    begin = ['\t.section .data.rel.ro,"aw"', "\t.balign 16", *hidden(label)]
    return [*begin, *entries, *hidden(f"{label}_end"), "\t.section .rodata", *names]


SHARED, CONSTANT, DEVICE = 0, 1, 2  # as in image.h
CONSTANTS = "softcuda_constant"  # sections of constants begin with this, and end with a number
SECTIONS = {SHARED: "softcuda_shared", CONSTANT: CONSTANTS, DEVICE: "softcuda_device"}


def kind_of(name: str, section: str) -> int | None:
    """Return the kind of memory that a variable in a section belongs to; None if it is not one of a kernel."""
    if (kind := section.rstrip("0123456789")) in SECTIONS.values():
        return next(each for each, known in SECTIONS.items() if known == kind)
    if (
        name.startswith(("softcuda_", ".L"))
        or LIBRARY.search(name)
        or not re.match(r"\.(data|bss)\b", section)
        or section.startswith(".data.rel.ro")
    ):
        return None
    return SHARED if name.startswith("_ZZ") else DEVICE


def symbol_table(symbols: list[tuple[str, int, int]], assembly: str) -> list[str]:
    """Return softcuda::Symbol in assembly, one for each variable, and their names."""
    records = records_of(assembly)
    entries, names = [], []
    for number, (name, size, kind) in enumerate(symbols):
        inside = name[2:].lstrip("Z") if name.startswith("_ZZ") else ""
        owners = (records.get(inside[: end.start()]) for end in re.finditer("E", inside))
        owner = next(filter(None, owners), 0)
        entries.append(f"\t.quad {name}, {size}, .Lsoftcuda_name{number}, {kind}, {owner}")
        names += [f".Lsoftcuda_name{number}:", f'\t.string "{name}"']
    return table("softcuda_symbols", entries, names)


def shared_too_large(symbols: list[tuple[str, int, int]]) -> str:
    """Return ptxas's complaint about the function that has more shared memory than a block may have."""
    totals: dict[str, int] = {}
    for name, size, kind in symbols:
        if kind == SHARED:
            function = match[1] if (match := re.match(r"_ZZ\d*(.*)E\d", name)) else ""
            totals[function] = totals.get(function, 0) + size
    for function, total in totals.items():
        if total > MAX_SHARED:
            return f"{function} uses too much shared data ({total:,} bytes, {MAX_SHARED:,} max)"
    return ""


LABEL = re.compile(rf"^_ZZ(\S+)E{len(RECORD)}{RECORD}:$", re.MULTILINE)


def records_of(assembly: str) -> dict[str, str]:
    """Return the labels of kernels' records by the kernel's name, encoded as in the names of what it declares."""
    return {match[1]: match[0][:-1] for match in LABEL.finditer(assembly)}


def kernel_table(assembly: str) -> list[str]:
    """Return softcuda::KernelEntry in assembly, one for each record of a kernel that g++ wrote.

    Each has a label of its own, softcuda_kernel.NAME, so that a reader of the image's symbols finds its kernels.
    """
    functions = set(re.findall(r"^\s*\.type\s+(\S+),\s*[@%]function", assembly, re.MULTILINE))
    records = records_of(assembly)
    entries: list[str] = []
    names: list[str] = []
    for number, (encoded, label) in enumerate(sorted(records.items())):
        name = f"_Z{encoded}"
        if name not in functions:  # extern "C"
            name = re.sub(r"^(?:N(?:\d+\w+?)*?)?\d+(\D\w*?)E?$", r"\1", encoded)
        entries += [f"{RECORD}.{external(name)}:", f"\t.quad {name}, .Lsoftcuda_kernel{number}, {label}"]
        names += [f".Lsoftcuda_kernel{number}:", f'\t.string "{external(name)}"']
    return table("softcuda_kernels", entries, names)


def external(name: str) -> str:
    """Return the mangled name of a function as nvcc has it: that of a static one too is as if it were not."""
    place = 3 if name.startswith("_ZN") else 2
    while part := re.compile(r"\d+").match(name, place):
        place = part.end() + int(part[0])
    return name[:place] + name[place + 1 :] if re.compile(r"L\d").match(name, place) else name


def text_in_assembly(label: str, text: str) -> str:
    """Return a table as a string in assembly."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return "\n".join(["\t.section .rodata", *hidden(label), f'\t.string "{text}"', ""])


# Of g++ 12 and later. Without the others, what is set in one branch alone is taken to be set in all: g++ 13 and later
# propagate what is unset as if it were any constant (-ftree-ccp). What fills a variable in each turn of a loop would be
# done before it (-ftree-loop-im), and a condition on it be decided by what fills it here (-fthread-jumps).
FILL_FLAGS = ["-ftrivial-auto-var-init=pattern", "-fno-tree-ccp", "-fno-tree-fre", "-fno-tree-pre",
              "-fno-code-hoisting", "-fno-tree-loop-im", "-fno-thread-jumps"]  # fmt: skip
WORD, LONG = -16843010, -72340172838076674  # 0xFE, four and eight times
NAN, TWO_NANS = (int.from_bytes(b"\xfe\xfe\xfe\xff" * n, "little", signed=True) for n in (1, 2))
NUMBERS = {str(number): str(nan) for number, nan in ((WORD, NAN), (LONG, TWO_NANS))}
NUMBERS |= {str(number % 2**32): str(NAN % 2**32) for number in (WORD,)} | {str(LONG % 2**64): str(TWO_NANS % 2**64)}
# What a kernel's own constant of such a value looks like in g++'s last intermediate form, where what is unset has no
# value yet: the numbers, the same as float32 and float64, bytes of a vector, and memset.
OWN = re.compile(rf"{'|'.join(NUMBERS)}|-1\.694739\d*e\+38|-5\.3130\d*e\+303|\{{ (?:254|-2), |memset \([^;]*, 254, ")


OWN_FILES = f"{Path(__file__).resolve().parents[1]}/"
COMPARISONS = "-fsanitize-coverage=trace-cmp"  # a call before each: for kernels that have unset variables alone
FUNCTION = re.compile(r"^;; Function .* \((\S+), funcdef_no=", re.MULTILINE)
DEFERRED = re.compile(
    r"^ *\[([^\[\]\n]+):(\d+):\d+(?: discrim \d+)?\] .*\.DEFERRED_INIT \(.*&\"(\w+)\"\[0\]", re.MULTILINE
)


def unset_variables(intermediate: str) -> str:
    """Return the variables that nothing sets on some way: lines of a function, a tab and "v (kernel.cu:3)".

    Those of softcuda's own headers are none of the kernel's.
    """
    starts = [*FUNCTION.finditer(intermediate)]
    ends = [*(match.start() for match in starts[1:]), len(intermediate)]
    return "".join(
        f"{match[1]}\t{variable[3]} ({variable[1]}:{variable[2]})\n"
        for match, end in zip(starts, ends, strict=True)
        for variable in DEFERRED.finditer(intermediate, match.end(), end)
        if not variable[1].startswith(OWN_FILES) and not variable[3].startswith("softcuda_")
    )


LONG_CONSTANT = re.compile(r"(?<=\tmovabsq\t\$)-?\d+")  # of a struct in one register, which may be set in part


def _with_nans_in_halves(match: re.Match[str]) -> str:
    words = struct.unpack("<2i", struct.pack("<Q", int(match[0]) % 2**64))
    return str(*struct.unpack("<q", struct.pack("<2i", *(NAN if word == WORD else word for word in words))))


def with_nans(assembly: str, intermediate: str) -> str:
    """Return the assembly with NaNs for unset variables; unchanged if a constant of the kernel could be taken for one.

    ``intermediate``: of -fdump-tree-optimized. Only x86-64's instructions are known here; elsewhere what is unset
    stays the huge number.
    """
    if OWN.search(intermediate):
        return assembly
    assembly = re.sub(rf"(?<![\w.-])(?:{'|'.join(NUMBERS)})(?![\w.])", lambda match: NUMBERS[match[0]], assembly)
    if ".DEFERRED_INIT" not in intermediate:
        return assembly
    assembly = LONG_CONSTANT.sub(_with_nans_in_halves, assembly)
    assembly = re.sub(
        r"(?<=:\n)(?:\t\.byte\t-2\n){8,}",
        lambda match: "".join(f"\t.byte\t{-1 if i % 4 == 3 else -2}\n" for i in range(match[0].count("\n"))),
        assembly,
    )
    # Large arrays: rdi, esi and edx are set in any order, and then memset is called.
    memset = r"\$254, %esi(?=\n(?:(?!\t(?:call|j|ret))[^\n]*\n){0,40}\tcall\t\*?memset)"
    assembly = re.sub(memset, "$255, %esi # of memset", assembly)
    return _with_places(assembly, halves=not re.search(OWN_HALF, intermediate))


WORDS, LONGS = (tuple(str(each) for each in (nan, nan % 2**bits)) for nan, bits in ((NAN, 32), (TWO_NANS, 64)))
HALVES = ("-258", "65278")
OWN_HALF = rf"(?<![\w.-])(?:{'|'.join(HALVES)})(?![\w.])"
# Lines with bytes of unset variables: the last operand of an instruction, at its end; data.
UNSET_LINE = re.compile(
    rf"^\t(?P<name>[a-z]\w*)\t\$(?P<number>-?\d+)(?:,.*)?$"
    rf"|^\t\.(?P<data>long|quad)\t(?:{'|'.join(WORDS + LONGS)})$|^(?P<bytes>\t\.byte\t-2\n(?:\t\.byte\t-[12]\n){{7,}})",
    re.MULTILINE,
)
# Ld does not keep a function because a section of this name refers to it, as of debug information.
UNSET_SECTION = ".debug_softcuda_unset"


def _with_places(assembly: str, *, halves: bool) -> str:
    """Return the assembly with a section that says where bytes of unset variables are, for unset_trials.cpp.

    It has addresses and sizes of 8 bytes each. ``halves``: no constant of the kernel looks like an unset half.
    """
    places: list[str] = []

    def labelled(match: re.Match[str]) -> str:
        label, line = f".Lsoftcuda_unset{len(places)}", match[0]
        if match["name"]:
            for offset, size in _bytes_of_operand(match, halves):
                places.append(f"\t.quad {label} - {offset}, {size}")
            return line if label == f".Lsoftcuda_unset{len(places)}" else f"{line}\n{label}:"
        size = {"long": 4, "quad": 8, None: line.count("\n")}[match["data"]]
        places.append(f"\t.quad {label}, {size}")
        return f"{label}:\n{line}"

    marked = UNSET_LINE.sub(labelled, assembly)
    return "\n".join([marked, f'\t.section {UNSET_SECTION},"",@progbits', *places, ""])


def _bytes_of_operand(match: re.Match[str], halves: bool) -> list[tuple[int, int]]:
    """Return which bytes of an instruction's constant are of an unset variable: from its end, and how many."""
    name, number = match["name"], match["number"]
    if "# of memset" in match[0]:
        return [(4, 1)]
    if name == "movabsq":
        words = struct.unpack("<2i", struct.pack("<Q", int(number) % 2**64))
        return [(8 - 4 * i, 4) for i, word in enumerate(words) if word == NAN]
    if number in WORDS:
        return [(4, 4)]
    if number in HALVES and halves:
        return [(2 if name.endswith("w") else 4, 2)]
    return []


# A record as g++ writes it: the file's name, line, column, the types of array and index.
BOUNDS_RECORD = re.compile(
    r"^(\.Lubsan_data\d+:\n\t\.(?:quad|xword)\t)(\.LC\d+)(\n\t\.(?:long|word)\t)(\d+)(\n\t\.(?:long|word)\t)(\d+)"
    r"(?=\n\t\.(?:quad|xword)\t\.Lubsan_type\d+\n\t\.(?:quad|xword)\t\.Lubsan_type\d+\n)",
    re.MULTILINE,
)
STRING = re.compile(r"^(\.LC\d+):\n\t\.string\t\"(.*)\"$", re.MULTILINE)
MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')


def with_array_names(written: str, plain: str, form: str) -> str:
    """Return the assembly with a variable's name in the records that count, and without any in the others.

    ``plain``: what g++ compiled. ``form``: its intermediate form, in which calls are inlined.
    """
    if "__ubsan_handle_out_of_bounds" not in written:
        return written
    files = dict(STRING.findall(written))
    lines = _lines_of(plain, {int(match[4]) for match in BOUNDS_RECORD.finditer(written)})
    names: dict[str, str] = {}
    is_local = functools.cache(lambda name: _is_local(name, form, written))

    def changed(match: re.Match[str]) -> str:
        places = lines.get((files.get(match[2], ""), int(match[4])), [])
        arrays = {_array_at(line, int(match[6])) for line in places}
        name = arrays.pop() if len(arrays) == 1 else ""
        label = "0"
        if name and is_local(name):
            label = names.setdefault(name, f".Lsoftcuda_array{len(names)}")
        return "".join([match[1], label, *match.groups()[2:]])

    named = BOUNDS_RECORD.sub(changed, written)
    strings = "".join(f'{label}:\n\t.string "{name}"\n' for name, label in names.items())
    return named + (f"\t.section .rodata\n{strings}" if names else "")


def _lines_of(plain: str, wanted: set[int]) -> dict[tuple[str, int], list[str]]:
    """Return the text of such lines by file and number. Macros may make several of one."""
    lines: dict[tuple[str, int], list[str]] = {}
    file, number = "", 0
    for line in plain.split("\n"):
        if line.startswith("# ") and (marker := MARKER.match(line)):
            number, file = int(marker[1]), marker[2]
            continue
        if number in wanted:
            lines.setdefault((file, number), []).append(line)
        number += 1
    return lines


def _array_at(line: str, column: int) -> str:
    """Return the variable whose first index ends in that column, counted from 1; "" where there is none."""
    depth = 0
    for at in range(column - 1, -1, -1) if line[column - 1 : column] == "]" else ():
        depth += (line[at] == "]") - (line[at] == "[")
        if not depth:
            match = re.search(r"([A-Za-z_]\w*)\s*$", line[:at])
            return match[1] if match and not re.search(r"(?:\.|->|::)\s*$", line[: match.start()]) else ""
    return ""


def _is_local(name: str, form: str, assembly: str) -> bool:
    """Return whether each array of that name is declared inside a function, as a variable of a thread."""
    declared = re.findall(rf"^  (static |)[A-Za-z][^=\n]*[ *&]{name}(?:\.\d+)?(?:\[\d+\])+;$", form, re.MULTILINE)
    is_member = re.search(rf"(?:\.|->){name}\[", form)
    is_elsewhere = re.search(rf"(?:\s|{len(name)}){name}(?:E\w*|[_.]\d+)?,\s*[@%]object", assembly)
    return set(declared) == {""} and not is_member and not is_elsewhere
