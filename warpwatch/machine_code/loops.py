"""Finds loops in machine code: instructions that can be reached from themselves, and the branches that lead back.

A branch backwards alone is no loop, because compilers move code that is seldom run to the end, from where it goes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwatch.machine_code.listing import Instruction

ENDS = frozenset({"EXIT", "RET", "KILL", "BPT"})
JUMPS = frozenset({"BRA", "BRX", "JMP", "JMX", "BRXU", "JMXU"})
NEVER_TAKEN = "@!PT"


def inside_loops(instructions: Sequence[Instruction]) -> list[bool]:
    """Tell of each instruction whether it is in a loop, or in a function that is called from one."""
    ways = [_ways(instructions, i) for i in range(len(instructions))]
    groups = _groups(ways)
    size = [0] * len(groups)
    for group in groups:
        size[group] += 1
    inside = [size[groups[i]] > 1 or i in ways[i] for i in range(len(ways))]
    calls = [i for i, each in enumerate(instructions) if each.name == "CALL" and inside[i]]
    waiting = [target for i in calls for target in instructions[i].targets]
    called: set[int] = set()
    while waiting:
        if (i := waiting.pop()) not in called:
            called.add(i)
            waiting += [*ways[i], *(instructions[i].targets if instructions[i].name == "CALL" else ())]
    return [each or i in called for i, each in enumerate(inside)]


def loop_sizes(instructions: Sequence[Instruction]) -> list[int]:
    """Return the number of instructions from the target of each branch that closes a loop to that branch, in order.

    Several branches to one target, as `continue` makes them, are one loop.
    """
    return [end - begin + 1 for begin, end in _loops(instructions)]


def loop_bodies(instructions: Sequence[Instruction]) -> list[list[int]]:
    """List the instructions of each loop, in the order of ``loop_sizes``, that are in no loop within it."""
    loops = _loops(instructions)
    bodies = []
    for begin, end in loops:
        within = [(b, e) for b, e in loops if (b, e) != (begin, end) and begin <= b and e <= end]
        bodies.append([i for i in range(begin, end + 1) if not any(b <= i <= e for b, e in within)])
    return bodies


def _loops(instructions: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Return the first and the last instruction of each loop, in order."""
    groups = _groups([_ways(instructions, i) for i in range(len(instructions))])
    last: dict[int, int] = {}
    for i, each in enumerate(instructions):
        if each.name in JUMPS:
            last |= {target: i for target in each.targets if target <= i and groups[target] == groups[i]}
    return sorted(last.items())


def _ways(instructions: Sequence[Instruction], i: int) -> list[int]:
    """List the instructions that may run after one in the same function. A call comes back to the next one."""
    each = instructions[i]
    name, following = each.name, [i + 1] if i + 1 < len(instructions) else []
    targets = [] if name in ("CALL", "BSSY") or each.predicate == NEVER_TAKEN else list(each.targets)
    if name in ENDS and not each.predicate:
        return targets
    # BRA takes a second condition as an operand, and .DIV where the threads of a warp disagree.
    always = name in JUMPS and not each.predicate and not _is_conditional(each)
    return [target for target in targets if target < len(instructions)] + ([] if always else following)


def _is_conditional(each: Instruction) -> bool:
    words = each.operands.replace("!", "").replace(",", " ").split()
    return (
        any(word.startswith(("P", "UP")) and word not in ("PT", "UPT") for word in words)
        or "DIV" in each.modifiers
        or "CONV" in each.modifiers
    )


def _groups(ways: Sequence[Sequence[int]]) -> list[int]:
    """Number the strongly connected components: two instructions have one number where each can follow the other.

    Kosaraju's algorithm: components are trees of the reversed graph, in the reversed order in which visits end.
    """
    back: list[list[int]] = [[] for _ in ways]
    for i, following in enumerate(ways):
        for target in following:
            back[target].append(i)
    order: list[int] = []
    seen = [False] * len(ways)
    for start in range(len(ways)):
        if seen[start]:
            continue
        seen[start] = True
        stack = [(start, iter(ways[start]))]
        while stack:
            i, rest = stack[-1]
            target = next((each for each in rest if not seen[each]), -1)
            if target < 0:
                order.append(i)
                stack.pop()
            else:
                seen[target] = True
                stack.append((target, iter(ways[target])))
    groups = [-1] * len(ways)
    for root in reversed(order):
        waiting = [root]
        while waiting:
            if groups[i := waiting.pop()] < 0:
                groups[i] = root
                waiting += [each for each in back[i] if groups[each] < 0]
    return groups
