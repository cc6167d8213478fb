"""Table of the cheats: what a run says of each, and where that shows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

# What is said where ...
OTHER_INPUTS = "of the other inputs"  # ... a result is the right one of inputs that came before
ALREADY_THERE = "already there"  # ... a launch is quicker where nothing was refreshed before it
UNSEEN = "has not seen"  # ... a launch is slower, or wrong, on inputs that were never there
RESET = "as after loading"  # ... it is slower where variables have their first values
NOT_WRITTEN = "still hold the poison"
WRONG = "is wrong in"
LATE = "wrong after the launches that were timed"
ELSEWHERE = "another stream"  # also one that is waited for
BLOCKS_RACE = "race between blocks"  # that read what another has changed
STREAMS_RACE = "race between streams"  # reading its input at once, where nothing orders that after the write
UNSET = "uninitialised memory"
OUT_OF_BOUNDS = "out of bounds"
CHANGED = "changed its operand"
TOO_LOOSE = "so that a wrong kernel would pass"
PREPARE = "`prepare`"
EARLY = "before its time begins"
AFTER_ITS_END = "changed after it had said that it was done"
REPLACED = ("replaced", "is not the one that was imported")
LEFT_BEHIND = ("runs on after the call", "left open", "left behind")
KEPT = (ALREADY_THERE, OTHER_INPUTS, UNSEEN, RESET, LATE)  # a result of an earlier launch
STALE = (NOT_WRITTEN, *KEPT)  # nothing is computed
GAIN, GAIN_ON_GPU = 0.4, 0.8  # shares of the time of the work, below which a figure is not that of the work
# Shapes that are timed: for the software device, and for a GPU.
ROWS = (4000, 500_000)
SIZES = {
    "turned": (500, 8000),
    **dict.fromkeys(("window", "mean", "summed", "fixed", "loose", "around_zero", "lenient"), ROWS),
    "dear": (4001, 500_001),
}
INTEGERS = ("window", "summed", "dear", "fixed", "turned")
ODD_FAMILIES = ("fixed", "loose", "around_zero")  # declarations that are refused


@dataclass(frozen=True)
class Cheat:
    """A way to look fast without doing the work.

    ``says``: one of these stands in the message that refuses it. ``on_gpu``: why only a GPU shows it; empty where the
    software device does. ``untrusted``: it changes the process that judges it, so that only another one refuses it.
    ``may_work``: the engine may take its advantage away, so that it gets a figure, which is that of the whole work.
    ``may_work_on_gpu``: the same where a GPU runs it, which keeps no shared memory from launch to launch.
    """

    name: str
    says: tuple[str, ...]
    _: KW_ONLY
    family: str = "window"
    on_gpu: str = ""
    untrusted: bool = False
    may_work: bool = False
    may_work_on_gpu: bool = False

    def __str__(self) -> str:
        return f"{self.family}-{self.name}"

    def case(self, on_gpu: bool) -> str:
        """Return the id of the case that is timed."""
        return case_id(self.family, self.name, on_gpu)

    def chosen(self, on_gpu: bool) -> str:
        """Return what chooses its test: of a family whose declaration is refused there is one for the whole family."""
        return self.family if self.family in ODD_FAMILIES else self.case(on_gpu)


def case_id(family: str, name: str, on_gpu: bool) -> str:
    """Return the id of a timed case."""
    block, dtype = "vendor" if family == "turned" else "128", "int32" if family in INTEGERS else "float32"
    return f"{family}-{name}-{block}-{SIZES[family][on_gpu]}-{dtype}"


NO_CACHE = "the software device has no cache"
KERNELS = (
    Cheat("first_launch", STALE),
    Cheat("first_launches", STALE, may_work=True),
    Cheat("counted_in_managed", STALE, may_work=True),
    Cheat("every_other", STALE),
    Cheat("until_there", (UNSET, ALREADY_THERE)),
    Cheat("by_value", KEPT),
    Cheat("by_values", KEPT),
    Cheat("until_believed", (UNSEEN, LATE)),
    Cheat("until_believed", (UNSEEN, LATE), family="dear"),
    Cheat("by_address", KEPT),
    Cheat("last_result", STALE),
    Cheat("behind_the_end", (OUT_OF_BOUNDS, *KEPT)),
    Cheat("in_scratch", (UNSET, *KEPT)),
    Cheat("in_shared", (UNSET, *KEPT), may_work_on_gpu=True),
    Cheat("some_rows", (WRONG,)),
    Cheat("fewer_terms", (WRONG,)),
    Cheat("zeros", (WRONG,)),
    Cheat("copy_of_input", (WRONG,)),
    Cheat("spoils_input", (CHANGED, BLOCKS_RACE)),
    Cheat("timed_shape", (NOT_WRITTEN,)),
    Cheat("large_grid", (NOT_WRITTEN,)),
    Cheat("by_the_clock", STALE),
    Cheat("after_a_while", STALE, may_work=True),
    Cheat("when_checked", (NOT_WRITTEN,)),
    Cheat("on_even_multiprocessors", STALE, on_gpu="the software device has one multiprocessor"),
    Cheat("in_the_cache", (), on_gpu=NO_CACHE, may_work=True),
    Cheat("fetches_ahead", (), on_gpu=NO_CACHE, may_work=True),
    Cheat("not_a_number", ("= nan, expected",), family="mean"),
    Cheat("constant", (TOO_LOOSE,), family="loose"),
    Cheat("zero", (TOO_LOOSE,), family="around_zero"),
    Cheat("knows_sums", (UNSEEN, WRONG), family="summed"),
    Cheat("in_arguments", (OTHER_INPUTS, UNSEEN, WRONG)),
    Cheat("forgiven", (WRONG,), family="lenient"),
    Cheat("knows_its_inputs", ("seed", "draw"), family="fixed", untrusted=True),
)
AT_ONCE = "the software device runs at once what is queued, on whatever stream"
CALLS = (
    Cheat("zeros", (WRONG,), family="turned"),
    Cheat("nothing", (NOT_WRITTEN,), family="turned"),
    Cheat("first_calls", STALE, family="turned"),
    Cheat("in_prepare", (PREPARE, WRONG, *KEPT), family="turned"),
    Cheat("by_value", (STREAMS_RACE, ELSEWHERE, *KEPT), family="turned"),
    Cheat("replayed", (PREPARE, WRONG, *KEPT), family="turned"),
    Cheat("elsewhere", (ELSEWHERE, EARLY, STREAMS_RACE), family="turned", on_gpu=AT_ONCE),
    Cheat("in_private", (ELSEWHERE, EARLY, PREPARE, *KEPT), family="turned", on_gpu=AT_ONCE),
    Cheat("in_a_thread", ("thread", AFTER_ITS_END, ELSEWHERE, *STALE), family="turned"),
    Cheat("unless_held", STALE, family="turned"),
    Cheat("on_the_host", (STREAMS_RACE, ELSEWHERE, EARLY), family="turned"),
    Cheat("between_goes", KEPT, family="turned", untrusted=True, may_work=True),
    Cheat("spoils_input", (CHANGED, WRONG), family="turned"),
    Cheat("knows_the_seed", (STREAMS_RACE, ELSEWHERE, *KEPT), family="turned"),
    Cheat("reads_reference", (WRONG, STREAMS_RACE, *KEPT), family="turned", untrusted=True),
    Cheat("reads_state", (WRONG, STREAMS_RACE, *KEPT), family="turned", untrusted=True),
    Cheat("accepts_everything", (WRONG,), family="turned", untrusted=True),
    Cheat("compares_nothing", (WRONG, *REPLACED), family="turned", untrusted=True),
    Cheat("checks_nothing", (WRONG, *REPLACED), family="turned", untrusted=True),
    Cheat("patched_numpy", (WRONG, *REPLACED), family="turned", untrusted=True),
    Cheat("patched_builtins", (WRONG, *REPLACED), family="turned", untrusted=True),
    Cheat("changes_reference", (WRONG,), family="turned", untrusted=True),
    Cheat("swaps_result", STALE, family="turned", untrusted=True),
    Cheat("when_read", (*STALE, *REPLACED), family="turned", untrusted=True),
    Cheat("quick_clock", REPLACED, family="turned", untrusted=True, may_work=True),
    Cheat("quick_events", REPLACED, family="turned", untrusted=True, may_work=True),
    Cheat("leaves_a_child", LEFT_BEHIND, family="turned", untrusted=True, may_work=True),
    Cheat("at_exit", LEFT_BEHIND, family="turned", untrusted=True, may_work=True),
    Cheat("writes_conftest", ("conftest.py",), family="turned", untrusted=True, may_work=True),
    Cheat("changes_environment", ("CUDA_LAUNCH_BLOCKING",), family="turned", untrusted=True, may_work=True),
)
CHEATS = (*KERNELS, *CALLS)
