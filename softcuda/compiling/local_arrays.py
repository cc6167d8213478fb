"""Lets an index be checked where it is one of a thread's own array, and names that array for the driver.

g++ -fsanitize=bounds calls a function where an index is not one of an array whose size it knows, with a record of the
place. It does so for shared arrays and members too, where an index past a row may be meant; an access past such an
array is found by what lies around it. So a record is left empty but for an array that is declared inside a function,
alone, and for the first index of it.
"""

from __future__ import annotations

import re

# A record as g++ writes it: the file's name, line, column, the types of array and index.
RECORD = re.compile(
    r"^(\.Lubsan_data\d+:\n\t\.(?:quad|xword)\t)(\.LC\d+)(\n\t\.(?:long|word)\t)(\d+)(\n\t\.(?:long|word)\t)(\d+)"
    r"(?=\n\t\.(?:quad|xword)\t\.Lubsan_type\d+\n\t\.(?:quad|xword)\t\.Lubsan_type\d+\n)",
    re.MULTILINE,
)
STRING = re.compile(r"^(\.LC\d+):\n\t\.string\t\"(.*)\"$", re.MULTILINE)
MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
SPACE = r"__shared__|__constant__|__device__|__managed__|static|extern|typedef|using|return|new|delete|case|sizeof"


def with_names(written: str, plain: str, source: str) -> str:
    """Return the assembly with a variable's name in the records that count, and without any in the others.

    ``plain``: what g++ compiled. ``source``: the same with CUDA's words.
    """
    if "__ubsan_handle_out_of_bounds" not in written:
        return written
    files = dict(STRING.findall(written))
    lines = _lines_of(plain, {int(match[4]) for match in RECORD.finditer(written)})
    names: dict[str, str] = {}

    def changed(match: re.Match[str]) -> str:
        places = lines.get((files.get(match[2], ""), int(match[4])), [])
        found = {_array_at(line, int(match[6])) for line in places}
        name = found.pop() if len(found) == 1 else ""
        label = "0"
        if name and _is_local(name, source):
            label = names.setdefault(name, f".Lsoftcuda_array{len(names)}")
        return "".join([match[1], label, *match.groups()[2:]])

    written = RECORD.sub(changed, written)
    strings = "".join(f'{label}:\n\t.string "{name}"\n' for name, label in names.items())
    return written + (f"\t.section .rodata\n{strings}" if names else "")


def _lines_of(plain: str, wanted: set[int]) -> dict[tuple[str, int], list[str]]:
    """Return the text of such lines by file and number. Macros may make several of one."""
    found: dict[tuple[str, int], list[str]] = {}
    file, number = "", 0
    for line in plain.split("\n"):
        if line.startswith("# ") and (marker := MARKER.match(line)):
            number, file = int(marker[1]), marker[2]
            continue
        if number in wanted:
            found.setdefault((file, number), []).append(line)
        number += 1
    return found


def _array_at(line: str, column: int) -> str:
    """Return the variable whose first index ends in that column, counted from 1; "" where there is none."""
    depth = 0
    for at in range(column - 1, -1, -1) if line[column - 1 : column] == "]" else ():
        depth += (line[at] == "]") - (line[at] == "[")
        if not depth:
            match = re.search(r"([A-Za-z_]\w*)\s*$", line[:at])
            return match[1] if match and not re.search(r"(?:\.|->|::)\s*$", line[: match.start()]) else ""
    return ""


def _is_local(name: str, source: str) -> bool:
    """Whether each array of that name is declared inside a function, as a variable of a thread."""
    declared = False
    for match in re.finditer(rf"(?<![\w.>:]){name}\s*\[", source):
        begin = max(source.rfind(end, 0, match.start()) for end in ";{}(")
        before = source[begin + 1 : match.start()]
        before = re.sub(r"^\s*(?:#.*\n)+", "", before)
        if not re.match(r"\s*[A-Za-z_][\w:<>, \t\n]*[\w>\s]\s*(?:\[[^\]]*\]\s*)?,?\s*$", before) or "=" in before:
            continue  # it is used here
        if re.search(rf"\b(?:{SPACE})\b", before):
            if re.search(r"\b(?:return|new|delete|case|sizeof)\b", before):
                continue
            return False
        if source[begin : begin + 1] != "(":
            if not _is_in_function(source, match.start()):
                return False
            declared = True
    return declared


def _is_in_function(source: str, at: int) -> bool:
    """Whether the innermost braces around a place are those of no class, namespace or linkage."""
    depth = 0
    for match in re.finditer(r"[{}]", source[:at][::-1]):
        depth += 1 if match[0] == "}" else -1
        if depth < 0:
            head = source[: at - match.end()]
            head = head[max(head.rfind(end) for end in ";{}") + 1 :]
            return not re.search(r"\b(?:struct|class|union|namespace|extern)\b[^()]*$", head)
    return False
