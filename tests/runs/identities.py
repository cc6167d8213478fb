"""Identities of cases, for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from warpwatch.runs.identity import VERSION, Array, Identity, Pointer, Scalar, Step

STEP = Step(
    entry="scale",
    grid=(64, 1, 1),
    block=(64, 1, 1),
    arguments=(Pointer("x", 0), Pointer("y", 0), Scalar("int32", "4096")),
    names=("x", "y", "n"),
)
ARRAYS = tuple(
    Array(name=name, role=role, shape=(4096,), dtype="float32") for name, role in (("x", "in"), ("y", "out"))
)
KNOWN = Identity(
    version=VERSION,
    code="code",
    steps=(STEP,),
    arrays=ARRAYS,
    symbols={},
    draw="uniform 1",
    call="",
    source="",
    library="",
)


def known(**parts: Any) -> Identity:
    """Return an identity of which every part is known, with some parts of its own."""
    return msgspec.structs.replace(KNOWN, **parts)
