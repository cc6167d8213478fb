"""What the software device says of several streams: faults of order are found, and nobody else is accused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.project import ROOT

# In the words of streams.py: a, b and c are streams, p, q and r arrays; a kernel of the first stream writes, and one of
# the other copies, which is a race unless something orders the two.
WRONG = {
    # Kernels of two streams.
    "a kernel reads what another stream writes": "write(a, p); copy(b, q, p)",
    "a kernel writes what another stream reads": "copy(a, q, p); write(b, p)",
    "two streams write": "write(a, p); write(b, p)",
    "a counter is read beside its atomics": "run('count', a, p); copy(b, q, p)",
    "halves that share an element": "both = array(2 * BYTES); write(a, both); write(b, both, COUNT - 1)",
    "one byte of a word": "run('fill_bytes', a, p, 0, 102); run('fill_bytes', b, p, 101, 101)",
    "a large array of two streams": "large = array(LARGE); run('fill_large', a, large, blocks=LARGE // BYTES)\n"
    "run('produce', b, large, LARGE // 4 - COUNT)",
    "a constant is set beside its reader": "run('scale', a, p); upload(symbol('step'), ones(2), b)",
    "a variable of two streams": "run('add_up', a); run('add_up', b)",
    "the second element of a constant": "run('scale', a, p); upload(symbol('step') + 4, ones(1), b)",
    "a variable that each reads before it writes": "run('count_up', a); run('count_up', b)",
    # Events.
    "an event recorded before the write": "e = event(a); write(a, p); wait(b, e); copy(b, q, p)",
    "an event of the wrong stream": "write(a, p); wait(b, event(c)); copy(b, q, p)",
    "an event that was never recorded": "write(a, p); wait(b, event()); copy(b, q, p)",
    "an event recorded anew elsewhere": "write(a, p); e = event(a); e.record(c); wait(b, e); copy(b, q, p)",
    "the second of three does not wait": "write(a, p); e = event(b); wait(b, event(a)); wait(c, e); copy(c, q, p)",
    "an event of the context recorded before the write": "e = context_event(); write(a, p); wait(b, e); copy(b, q, p)",
    "the context waits for another stream": "write(a, p); let_context_wait(c); copy(b, q, p)",
    # The host waits.
    "the host waits for another stream": "write(a, p); c.synchronize(); copy(b, q, p)",
    "the host waits for one of two that were queued": "write(a, p); copy(b, q, p); a.synchronize()",
    # Default streams, and streams that wait for them.
    "a non-blocking stream beside the default stream": "write(None, p); copy(b, q, p)",
    "two blocking streams": "write(blocking(), p); copy(blocking(), q, p)",
    "the default stream of the thread beside a blocking one": "write_per_thread(p); copy(blocking(), q, p)",
    "a fill without stream does not wait": "fill(p); copy(b, q, p)",
    "a copy on the device without stream does not wait": "copy_memory(p, r); copy(b, q, p)",
    "a stream destroyed before its kernel was waited for": "s = stream(); write(s, p); del s; copy(b, q, p)",
    # Copies, fills and graphs.
    "a fill of another stream": "copy(a, q, p); fill(p, b)",
    "a copy on the device of another stream": "write(a, p); copy_memory(q, p, b)",
    "a copy to the host of another stream": "write(a, p); download(pinned(), p, b)",
    "a copy to the device of another stream": "upload(p, ones(), a); copy(b, q, p)",
    "two copies of one buffer": "buffer = pinned(); download(buffer, p, a); upload(q, buffer, b); wait_for_all()",
    "a graph of another stream": "launch = graph(c, lambda: write(c, p)); launch(a); copy(b, q, p)",
    # Memory in the order of a stream.
    "memory used before its stream has it": "write(b, taken(a))",
    "memory freed while another stream uses it": "memory = taken(a); wait(b, event(a)); write(b, memory)\n"
    "give(memory, a)",
    "memory copied after another stream frees it": "memory = taken(a); fill(memory, a); wait(b, event(a)); freed = []\n"
    "host(b, lambda: until(lambda: freed)); copy_memory(q, memory, b); give(memory, a)\n"
    "a.synchronize(); freed.append(1)",
    # Page-locked memory that the host changes.
    "a buffer changed under a copy": "buffer = pinned(); upload(p, buffer, a); buffer[7] = 5; a.synchronize()",
    "a buffer changed after waiting for another stream": "buffer = pinned(); upload(p, buffer, a); b.synchronize()\n"
    "buffer[7] = 5; event(a).synchronize()",
    "a kernel writes a buffer that another stream copies": "buffer = pinned(mapped=True)\n"
    "write(a, address_of(buffer)); upload(q, buffer, b); a.synchronize()",
    # Of one stream, whose later kernel may begin before the one before has ended.
    "a kernel that begins early does not wait": "run('produce_early', a, p); early('consume', a, q, p)",
    "a kernel that begins early reads before it waits": "run('produce_early', a, p); "
    "early('consume_before_wait', a, q, p)",
    "a warp of a kernel that begins early waits, and the others do not": "run('produce_early', a, p); "
    "early('consume_where_a_warp_waits', a, q, p)",
    "a kernel that begins early writes what is read": "early('consume_where_one_waits', a, q, p); "
    "early('produce', a, p, 0)",
    "no kernel says that the next one may begin early": "write(a, p); early('consume', a, q, p)",
    "the second of two that begin early does not wait": "run('produce_early', a, r); "
    "early('consume_where_one_waits', a, q, r); early('consume', a, p, q)",
    "the second of three that begin early does not wait": "run('produce_early', a, p); early('produce_early', a, r)\n"
    "early('consume_after_wait', a, q, p)",
}
RIGHT = {
    # Kernels of two streams.
    "a kernel waits for the event of the writer": "write(a, p); wait(b, event(a)); copy(b, q, p)",
    "kernels of one stream": "write(a, p); copy(a, q, p); write(a, p)",
    "two streams read": "copy(a, q, p); copy(b, r, p)",
    "two streams count atomically": "run('count', a, p); run('count', b, p)",
    "halves of one array": "both = array(2 * BYTES); write(a, both); write(b, both, COUNT)",
    "bytes of one word": "run('fill_bytes', a, p, 0, 101); run('fill_bytes', b, p, 101, 101)",
    "large arrays of two streams": "one, other = array(LARGE), array(LARGE)\n"
    "for on, large in ((a, one), (b, other)): run('fill_large', on, large, blocks=LARGE // BYTES)",
    "a constant is set where nobody reads": "run('scale', a, p); upload(symbol('step') + 8, ones(2), b)",
    # Events.
    "an event recorded anew after the wait": "write(a, p); e = event(a); wait(b, e); e.record(c); copy(b, q, p)",
    "three streams in a row": "write(a, p); wait(b, event(a)); wait(c, event(b)); copy(c, q, p)",
    "two streams hand it to and fro": "for _ in range(20): "
    "write(a, p); wait(b, event(a)); copy(b, q, p); wait(a, event(b))",
    "an event of the context after the write": "write(a, p); e = context_event(); wait(b, e); copy(b, q, p)",
    "the context waits for the writer": "write(a, p); let_context_wait(a); copy(b, q, p)",
    "a stream made after the context waits": "write(a, p); let_context_wait(a); copy(stream(), q, p)",
    "an event of the context comes after all streams": "going = []; host(b, lambda: until(lambda: going))\n"
    "write(a, p); e = context_event(); a.synchronize(); assert not e.query(); going.append(1); until(e.query)",
    "an event of the context is not later than the last stream": "write(a, p); s = Event().record(a)\n"
    "e = context_event(); e.synchronize(); assert e.seconds_since(s) == 0",
    "what is queued after an event of the context does not delay it": "e, going = context_event(), []\n"
    "host(b, lambda: until(lambda: going)); assert e.query(); going.append(1)",
    # The host waits.
    "the host waits for the stream": "write(a, p); a.synchronize(); copy(b, q, p)",
    "the host waits for the context": "write(a, p); wait_for_all(); copy(b, q, p)",
    "the host waits for the event": "write(a, p); event(a).synchronize(); copy(b, q, p)",
    "the host asks the event": "write(a, p); until(event(a).query); copy(b, q, p)",
    "the host asks the stream": "write(a, p); until(a.is_done); copy(b, q, p)",
    "an array is freed between": "other = array(); write(a, p); other.free(); copy(b, q, p)",
    "a function of the host says so": "called = []; write(a, p); host(a, lambda: called.append(1))\n"
    "until(lambda: called); copy(b, q, p)",
    "a plain copy between": "s = blocking(); write(s, p); download(ones(), p); copy(b, q, p)",
    # Default streams, and streams that wait for them.
    "a blocking stream after the default stream": "write(None, p); copy(blocking(), q, p)",
    "the default stream after a blocking stream": "s = blocking(); write(s, p); copy(None, q, p); write(s, p)",
    "the default stream between blocking streams": "write(blocking(), p); write(None, r); copy(blocking(), q, p)",
    "the default stream of the thread before the default stream": "write_per_thread(p); copy(None, q, p)\n"
    "write_per_thread(p)",
    "a copy without stream waits": "upload(p, ones()); copy(b, q, p)",
    "a stream destroyed after its event": "s = stream(); write(s, p); e = event(s); del s; wait(b, e); copy(b, q, p)",
    "many streams one after another": "for _ in range(100): s = stream(); write(s, p); s.synchronize()",
    # Copies, fills and graphs.
    "a fill of the next element": "both = array(2 * BYTES); write(a, both); fill(int(both) + BYTES, b)",
    "a copy of a buffer that another stream has read": "buffer = pinned(); upload(q, buffer, a); upload(p, buffer, b)\n"
    "wait_for_all()",
    "a graph waited for": "launch = graph(c, lambda: write(c, p)); launch(a); wait(b, event(a)); copy(b, q, p)\n"
    "wait(a, event(b)); launch(a)",
    # Memory in the order of a stream.
    "memory used after its stream has it": "memory = taken(a); wait(b, event(a)); write(b, memory)\n"
    "wait(a, event(b)); give(memory, a)",
    # Page-locked memory that the host changes.
    "a buffer changed after waiting": "buffer = pinned()\n"
    "for _ in range(3): upload(p, buffer, a); a.synchronize(); buffer[7] += 1",
    "a buffer changed after its event": "buffer = pinned(); upload(p, buffer, a); e = event(a); write(a, q)\n"
    "until(e.query); buffer[7] = 5; a.synchronize()",
    "ordinary memory changed after the call": "values = ones(); upload(p, values, a); values[7] = 5; a.synchronize()",
    "a result comes back into the same buffer": "buffer = pinned(); upload(p, buffer, a); write(a, p)\n"
    "download(buffer, p, a); upload(q, buffer, a); a.synchronize(); buffer[:] = 5",
    "a function of the host fills the buffer": "buffer = pinned()\n"
    "for number in range(3): host(a, lambda n=number: buffer.fill(n)); upload(p, buffer, a)\n"
    "a.synchronize()",
    "a held stream whose buffer is filled meanwhile": "buffer, filled = pinned(), []\n"
    "host(a, lambda: until(lambda: filled)); upload(p, buffer, a)\n"
    "write(b, q); b.synchronize()  # is not held\n"
    "buffer[:] = 5; filled.append(1); a.synchronize()",
    "a kernel writes the buffer itself": "buffer = pinned(mapped=True); upload(p, buffer, a)\n"
    "write(a, address_of(buffer)); upload(q, buffer, a); a.synchronize()",
    # Of one stream, whose later kernel may begin before the one before has ended.
    "a kernel that begins early waits": "run('produce_early', a, p); early('consume_after_wait', a, q, p)",
    "one thread waits, and the others for it": "run('produce_early', a, p); early('consume_where_one_waits', a, q, p)",
    "a kernel that begins early needs nothing": "run('produce_early', a, p); early('produce', a, q, 0)",
    "three kernels of which the last two wait": "write(a, p); early('consume_after_wait', a, q, p)\n"
    "early('consume_after_wait', a, r, q)",
    "the third reads what the first writes, and all wait": "write(a, p); early('consume_after_wait', a, q, p)\n"
    "early('consume_after_wait', a, r, p)",
    "the second waits no more than the third needs": "write(a, p); early('produce_early', a, q)\n"
    "early('consume_after_wait', a, r, q)",
    "a usual one ends what the second did not wait for": "run('produce_early', a, p); early('produce_early', a, r)\n"
    "write(a, r); early('consume_after_wait', a, q, p)",
    "the next kernel is a usual one": "run('produce_early', a, p); copy(a, q, p)",
    # Of two threads.
    "memory is freed beside copies of another thread": "free_beside_copies(a, 20000)",
    "the host waits for the first of two": "run('produce_early', a, p); a.synchronize(); early('consume', a, q, p)",
    "a copy lies between": "run('produce_early', a, p); copy_memory(r, p, a); early('consume', a, q, p)",
}
# Wrong, and not seen.
NOT_SEEN = {
    "a result read before its copy was waited for": "buffer = pinned(); write(a, p); download(buffer, p, a)\n"
    "buffer[7]; a.synchronize()",
    "a buffer changed and restored under a copy": "buffer = pinned(); upload(p, buffer, a); before = buffer[7]\n"
    "buffer[7] = 5; buffer[7] = before; a.synchronize()",
    "a non-blocking stream behind a plain copy of ordinary memory": "upload(p, ones()); copy(b, q, p)",
    "the first block of a kernel that begins early waits, and the second does not": "run('produce_early', a, p); "
    "early('consume_where_a_block_waits', a, q, p, blocks=2)",
}
# What is not told as a race of two operations of streams.
EARLY = {name for name in WRONG if "early" in name}
OTHERS = {
    "memory copied after another stream frees it": "use after free",
    "a buffer changed under a copy": "page-locked memory changed under a copy",
    "a buffer changed after waiting for another stream": "page-locked memory changed under a copy",
    **dict.fromkeys(EARLY, "race between launches"),
}
KERNELS = """race between streams in consume
  kernel.cu:12: consume reads bytes 0 to 1023 of from (argument 2), 1,024 bytes, in stream 2
  kernel.cu:7: produce writes them in stream 1, with no event or synchronisation between
    record an event in stream 1 after produce and let stream 2 wait for it (cuStreamWaitEvent) before consume, \
use one stream for both, or synchronise between them"""
SAID = {
    "a kernel that begins early does not wait": """race between launches in consume
  kernel.cu:12: consume reads bytes 0 to 1023 of from (argument 2), 1,024 bytes, \
and never waits for the launch before it
  kernel.cu:47: produce_early writes them, and need not have ended, because the launch after it is programmatic
    call cudaGridDependencySynchronize() (griddepcontrol.wait) before what the launch before touches""",
    "a warp of a kernel that begins early waits, and the others do not": "consume_where_a_warp_waits reads bytes 128 "
    "to 1023 of from (argument 2), 1,024 bytes, before it waits",
    "a kernel that begins early reads before it waits": ", before it waits for the launch before it\n",
    "the second of three that begin early does not wait": """consume_after_wait reads bytes 0 to 1023 of \
from (argument 2), 1,024 bytes, and waits for the launch before it alone
  kernel.cu:47: produce_early writes them, and need not have ended, because the launch after it is programmatic \
and never waits
    call cudaGridDependencySynchronize() (griddepcontrol.wait) in the launches between the two too""",
    "a kernel that begins early writes what is read": "\n  kernel.cu:7: produce writes bytes 0 to 1023 of",
    "halves that share an element": "writes bytes 1020 to 1023 of to (argument 1)",
    "one byte of a word": "writes byte 101 of to (argument 1)",
    "a fill of another stream": "\n  the fill writes bytes 0 to 1023 of from (argument 2)",
    "a constant is set beside its reader": "\n  the copy to the device writes 8 bytes of step, in stream 2\n",
    "memory freed while another stream uses it": "\n  cuMemFreeAsync frees bytes 0 to 1023 of",
    "a buffer changed under a copy": "the host changed some of bytes 0 to 1023 of them",
    "a non-blocking stream beside the default stream": "produce writes them in the default stream, with no event or "
    "synchronisation between: a non-blocking",
}


def run_cases(cases: Iterable[str]) -> list[str]:
    """Return the message of each case; empty where it has none."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.softcuda.streams"],
        input=json.dumps([*cases]), capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """Return the message of every case."""
    cases = WRONG | RIGHT | NOT_SEEN
    return dict(zip(cases, run_cases(cases.values()), strict=True))


def test_a_record_is_waited_for_whatever_is_recorded_later() -> None:
    """The earlier of two records may come to pass last; a stream that waits for the later one once waited for ever."""
    for message in run_cases([WRONG["an event recorded anew elsewhere"]] * 40):
        assert "race between streams" in message


@pytest.mark.parametrize("case", WRONG)
def test_a_missing_order_is_found(found: dict[str, str], case: str) -> None:
    assert f"\nsoftcuda: {OTHERS.get(case, 'race between streams')}" in found[case]


@pytest.mark.parametrize("case", RIGHT)
def test_an_order_that_is_there_is_seen(found: dict[str, str], case: str) -> None:
    assert found[case] == ""


@pytest.mark.parametrize("case", NOT_SEEN)
def test_what_is_not_seen_between_streams(found: dict[str, str], case: str) -> None:
    assert found[case] == ""


def test_a_race_names_kernels_streams_bytes_lines_and_the_cure(found: dict[str, str]) -> None:
    assert found["a kernel reads what another stream writes"].partition("\nsoftcuda: ")[2] == KERNELS


@pytest.mark.parametrize(("case", "said"), SAID.items())
def test_bytes_are_those_that_both_touch_and_copies_fills_and_variables_have_names(
    found: dict[str, str], case: str, said: str
) -> None:
    assert said in found[case]
