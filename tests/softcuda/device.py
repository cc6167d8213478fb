"""Compiles kernels for the software device and runs them there: what they leave, or what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.compile.compiler import CompileError, Image, Target, compile_file
from warpwatch.devices.worker import Worker, describe_device

ORDERS = (None, 1, 2)  # of threads and blocks: the first is in the order of their numbers


@dataclass(frozen=True)
class Device:
    """A process of the software device, and a folder for texts.

    ``checked``: whether every access is checked. ``flags``: that nvcc is given besides its own.
    """

    worker: Worker
    folder: Path
    checked: bool = True
    flags: tuple[str, ...] = ()

    @property
    def unchecked(self) -> Device:
        return replace(self, checked=False)

    @property
    def target(self) -> Target:
        info = self.worker.call(describe_device)
        target = info.target if self.checked else info.timing_target
        return replace(target, flags=target.flags + self.flags)

    def image(self, source: Path | str, macros: Mapping[str, object] | None = None, **beside: str) -> Image:
        """Compile a file, or a text as kernel.cu, ``beside`` which are headers. Raises CompileError."""
        texts = {name: str(value) for name, value in (macros or {}).items()}
        if isinstance(source, Path) and source.is_relative_to(ROOT):
            return compile_file(source, texts, self.target)
        for name, text in beside.items():
            (self.folder / f"{name}.h").write_text(text)
        if isinstance(source, Path):
            return compile_written(source, texts, self.target)
        (self.folder / "kernel.cu").write_text(source)
        return compile_written(self.folder / "kernel.cu", texts, self.target)

    def refusal(self, source: Path | str, macros: Mapping[str, object] | None = None, **beside: str) -> str:
        """Return the message of the error with which a file, or a text, does not compile."""
        with pytest.raises(CompileError) as caught:
            self.image(source, macros, **beside)
        return str(caught.value)

    def in_orders(
        self, run: Callable[..., Any], image: Image, *arguments: Any, orders: tuple[int | None, ...] = ORDERS
    ) -> list[Any]:
        """Return what a function of calls.py answers in each order, each time in a context of its own."""
        return self.worker.call(calls.in_orders, orders, run, image.path, *arguments)

    def once(self, run: Callable[..., Any], image: Image, *arguments: Any) -> Any:
        """Return what a function of calls.py answers in a context of its own."""
        (answer,) = self.in_orders(run, image, *arguments, orders=(None,))
        return answer

    def left(
        self,
        image: Image,
        entry: str,
        size: int,
        threads: int = 32,
        blocks: int = 1,
        orders: tuple[int | None, ...] = ORDERS,
    ) -> list[bytes | str]:
        """Return what a kernel leaves of so many bytes of zeros in each order, or what is said of it."""
        return self.in_orders(calls.run_or_say, image, entry, (threads, 1, 1), (blocks, 1), size, 0, orders=orders)

    def said(self, image: Image, entry: str, size: int, threads: int = 32, blocks: int = 1) -> str:
        """Return what is said of a kernel; "" where its launch ends well. Places are named without the folder."""
        (left,) = self.left(image, entry, size, threads, blocks, orders=(None,))
        return left.replace(f"{self.folder}/", "") if isinstance(left, str) else ""

    def computed(
        self, image: Image, entry: str, arrays: list[np.ndarray], size: int, kind: Any, count: int | None = None
    ) -> np.ndarray:
        """Return what a kernel makes of arrays in so many bytes, and of their length if that is given."""
        left = self.worker.call(calls.run_on_arrays, image.path, entry, arrays, size, count)
        assert isinstance(left, bytes), left
        return np.frombuffer(left, kind)


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Hold that narrow floats are equal to the bit, where every NaN is equal to every other."""
    assert got.dtype == wanted.dtype
    both = np.isnan(got.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    wrong = np.flatnonzero((got.view(f"u{got.itemsize}") != wanted.view(f"u{got.itemsize}")) & ~both)
    assert wrong.size == 0, [(int(i), got[i], wanted[i]) for i in wrong[:5]]
