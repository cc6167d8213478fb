"""Keeps code of a project from ending the process with status 0, which would look like a run in which all was well.

``os._exit`` skips everything that could still say otherwise, pytest's own status too. So it is replaced where a
project is loaded: with status 0 it raises there. Processes that are forked from this one end as they like.
"""

from __future__ import annotations

import os
from typing import NoReturn

end_now = os._exit  # Python's own, for those who may
_kept = [0]  # the process that is kept alive


class LeftProcess(RuntimeError):
    """Raised in place of an end of the process that would hide what was found."""


class Ended(SystemExit):
    """Raised where another process ends this one by a signal."""


def keep_alive() -> None:
    """Let ``os._exit(0)`` raise LeftProcess in this process from now on."""
    _kept[0] = os.getpid()
    os._exit = _refuse


def _refuse(status: int) -> NoReturn:
    if status or os.getpid() != _kept[0]:
        end_now(status)
    raise LeftProcess("os._exit(0) was called, which would end this process as if all were well")
