"""Tests of the digest of a function: it changes with all that the function reaches, and with nothing else."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from warpwatch.catalogue.function_digest import LOOKUP, NotFollowed, digest_of_source

NUMBERS = itertools.count()
Digest = Callable[..., str]
Load = Callable[[str, str], ModuleType]

DRAW = """
import enum, functools, math, typing
import numpy as np
{top}

def draw(rng, n):
    {body}
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that writes a module of its own, and imports it."""

    def write(name: str, text: str) -> ModuleType:
        path = tmp_path / str(next(NUMBERS)) / f"{name}.py"  # what is read of a file is kept
        path.parent.mkdir()
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return write


@pytest.fixture
def draw(tmp_path: Path, load: Load) -> Digest:
    """Return a function that digests the ``draw`` of a module of its own."""

    def digest(
        body: str = "return rng.random(n)",
        top: str = "",
        *,
        text: str = DRAW,
        packages: tuple[str, ...] = (),
        refused: frozenset[str] = frozenset(),
        **helpers: str,
    ) -> str:
        for name, content in helpers.items():
            load(name, content)
        module = load(f"drawn{next(NUMBERS)}", text.format(body=body, top=top))
        return digest_of_source(module.draw, tmp_path, packages, refused)

    return digest


USES = "return {'x': rng.random(n) * SCALE}"
HELPS = "return {'x': helped(rng, n)}"
GIVES = "return V"


@pytest.mark.parametrize(
    ("body", "top", "one", "other"),  # "#" stands for one, or for the other
    [
        ("return rng.#(n)", "", "random", "normal"),
        ("return [x + # for x in [n]]", "", "1", "2"),
        (USES, "SCALE = #", "2", "3"),
        (USES, "SCALE = #", "2", "2.0"),
        (USES, "SCALE = #", "0.0", "-0.0"),
        (USES, "SCALE = np.array([1, #])", "2", "3"),
        (USES, "SCALE = {'a': (1, #)}", "2", "3"),
        (HELPS, "def helped(rng, n):\n    return #", "n", "n + 1"),
        (HELPS, "def helped(rng, n, k=#):\n    return k", "1", "2"),
        (HELPS, "helped = lambda rng, n: #", "n", "n + 1"),
        (HELPS, "def make(k):\n    return lambda rng, n: k\nhelped = make(#)", "1", "2"),
        (HELPS, "helped = functools.partial(lambda a, rng, n: a, #)", "1", "2"),
        (HELPS, "helped = functools.cache(lambda rng, n: #)", "n", "2 * n"),
        (HELPS, "class Way:\n    def __call__(self, rng, n):\n        return #\nhelped = Way()", "n", "2 * n"),
        (HELPS, "# = lambda a: 1, lambda a: 2", "one, helped", "helped, one"),
        (HELPS, "def helped(rng, n):\n    return f(rng, n)\ndef f(rng, n):\n    return helped(rng, n) + #", "1", "2"),
        (GIVES, "class Kind(enum.Enum):\n    A = 1\n    def f(self):\n        return #\nV = Kind.A", "1", "2"),
        (GIVES, "class N(typing.NamedTuple):\n    n: int\n    def f(self):\n        return #\nV = N(3)", "1", "2"),
        (GIVES, "class Listed(list):\n    def f(self):\n        return #\nV = Listed([3])", "1", "2"),
        (GIVES, "class Keyed(dict):\n    pass\nV = Keyed(a=3)\nV.k = #", "1", "2"),
        (GIVES, "class Number(int):\n    pass\nV = Number(#)", "1", "2"),
        (GIVES, "class Text(str):\n    pass\nV = Text('#')", "1", "2"),
        (GIVES, "K = #\nclass Owner:\n    k = K\nV = Owner", "1", "2"),
        (GIVES, "def f():\n    return #\nclass Owner:\n    table = dict(a=f)\nV = Owner", "1", "2"),
        (GIVES, "class O:\n    @functools.cached_property\n    def f(self):\n        return K\nK = #\nV = O", "1", "2"),
        (GIVES, "def V():\n    return V.k\nV.k = #", "1", "2"),
    ],
)  # fmt: skip
def test_whatever_a_function_reaches_counts(draw: Digest, body: str, top: str, one: str, other: str) -> None:
    def digest(value: str) -> str:
        return draw(body.replace("#", value), top.replace("#", value))

    assert digest(one) == digest(one)
    assert digest(one) != digest(other)


def test_comments_docstrings_annotations_and_what_is_not_reached_do_not_count(draw: Digest) -> None:
    plain = draw("return rng.random(n)")
    assert draw('"""Draw."""\n    # from 0 to 1\n    return rng.random( n )', "UNUSED = 3\n\n\n") == plain
    typed = DRAW.replace("rng, n", "rng: object, n: int")
    assert draw("return rng.random(n)", text=typed) == plain


@pytest.mark.parametrize(
    "body", ["import helper_a\n    return helper_a.of(n)", "from helper_a import of\n    return of(n)"]
)
def test_modules_of_the_project_are_followed(draw: Digest, body: str) -> None:
    first = draw(body, helper_a="SCALE = 1\nREST = 1\ndef of(n):\n    return SCALE * n")
    rest = draw(body, helper_a="SCALE = 1\nREST = 2\ndef of(n):\n    return SCALE * n")
    assert first == rest
    assert first != draw(body, helper_a="SCALE = 2\nREST = 1\ndef of(n):\n    return SCALE * n")
    at_top = draw("return helper_a.of(n)", "import helper_a", helper_a="SCALE = 1\ndef of(n):\n    return SCALE * n")
    changed = draw("return helper_a.of(n)", "import helper_a", helper_a="SCALE = 2\ndef of(n):\n    return SCALE * n")
    assert at_top != changed


@pytest.mark.parametrize(
    ("body", "top", "why"),
    [
        ("return np.load('x.npy')", "", "reaches numpy.load"),
        ("return load('x.npy')", "from numpy import load", "load, which may do anything"),
        ("return load_npz('x.npz').toarray()", "from scipy.sparse import load_npz", "load_npz, which may do anything"),
        ("return scipy.io.mmread('x.mtx')", "import scipy.io", "reaches scipy.io.mmread"),
        ("return open('x').read()", "", r"calls open\(\)"),
        ("return np.loadtxt('x')", "", "reaches numpy.loadtxt"),
        ("return eval('n')", "", r"calls eval\(\)"),
        ("return globals()['n']", "", r"calls globals\(\)"),
        ("return __import__('os').environ", "", r"calls __import__\(\)"),
        ("return hash('n')", "", r"calls hash\(\)"),
        ("global N\n    N = n", "N = 1", "it changes the global variable N"),
        ("return RNG.normal()", "RNG = np.random.default_rng(1)", "an object of the type Generator"),
        ("return os.environ['N']", "import os", "reaches os.environ"),
        ("import random\n    return random.random()", "", "it imports random|reaches random"),
        ("return Path('x').read_bytes()", "from pathlib import Path", "Path, which may do anything"),
        ("return helper_b", "import helper_b", "helper_b is passed on as a value"),
        ("return LOCK", "import threading\nLOCK = threading.Lock()", "it reaches"),
    ],
)
def test_what_cannot_be_followed_is_said(draw: Digest, body: str, top: str, why: str) -> None:
    with pytest.raises(NotFollowed, match=why):
        draw(body, top, helper_b="")


def test_a_lookup_by_a_name_is_followed_unless_it_is_refused(draw: Digest) -> None:
    assert draw("return getattr(np, 'cumsum')")
    with pytest.raises(NotFollowed, match=r"calls getattr\(\)"):
        draw("return getattr(np, 'load')", refused=LOOKUP)


def test_functions_of_numpy_and_of_the_engine_are_named(draw: Digest, tmp_path: Path) -> None:
    assert draw("return ww.product(n, n)", "import warpwatch as ww")
    assert digest_of_source(np.cumsum, tmp_path)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return ctypes.CDLL('./libown.so').run", "it loads './libown.so', a library whose code is not recorded"),
        ("return ctypes.CDLL(str(rng)).run", r"it loads str\(rng\), a library"),
        ("return ctypes.cdll.LoadLibrary(rng).run", "it loads rng, a library"),
        (
            "return extensions.cpp_extension.load(name='own', sources=['own.cu'])",
            "reaches extensions.cpp_extension.load",
        ),
    ],
)
def test_what_a_call_takes_from_a_file_of_code_is_not_followed(
    draw: Digest, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    packages = ("ctypes", "extensions")
    extensions = ModuleType("extensions")
    extensions.cpp_extension = ModuleType("extensions.cpp_extension")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "extensions", extensions)
    with pytest.raises(NotFollowed, match=said):
        draw(body, "import ctypes\nimport extensions", packages=packages)
    assert draw("return ctypes.CDLL('libcuda.so.1').run", "import ctypes", packages=packages)


@pytest.mark.parametrize("made", ["np.vectorize(f)", "np.frompyfunc(f, 1, 1)"])
def test_what_numpy_makes_of_a_function_is_not_followed(draw: Digest, made: str) -> None:
    with pytest.raises(NotFollowed, match="which was made by"):
        draw("return V(n)", f"def f(x):\n    return x\nV = {made}")


LANGUAGE = """
class constexpr:
    def __init__(self, value):
        self.value = value
def load(pointer):
    return pointer
"""
JIT = """
class JITFunction:
    def __init__(self, fn, noinline=False):
        self.fn, self.noinline, self.pre_run_hooks = fn, noinline, []
        self.__name__, self.__qualname__, self.__module__ = fn.__name__, fn.__qualname__, fn.__module__
def jit(fn=None, **given):
    return JITFunction(fn, **given) if fn else lambda fn: JITFunction(fn, **given)
class Autotuner(JITFunction):
    pass
"""
KERNEL = """
import triton.language as tl
from triton.runtime import jit
TWICE = tl.constexpr(2)
@jit.jit
def half(x):
    return x / 2
@jit.jit
def scale(x, N: tl.constexpr):
    return half(tl.load(x)) * TWICE
"""


def test_a_kernel_of_triton_is_followed(
    draw: Digest, tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("triton.language", LANGUAGE), ("triton.runtime.jit", JIT), ("triton.language.core", LANGUAGE)):
        module = load(name, text)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["triton.language"].constexpr = sys.modules["triton.language.core"].constexpr  # type: ignore[attr-defined]
    for name in ("triton", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["triton"].language = sys.modules["triton.language"]  # type: ignore[attr-defined]
    sys.modules["triton.runtime"].jit = sys.modules["triton.runtime.jit"]  # type: ignore[attr-defined]

    def digest(*edits: tuple[str, str]) -> str:
        kernel = KERNEL
        for old, new in edits:
            assert old in kernel
            kernel = kernel.replace(old, new)
        return draw("from kernels_of import scale\n    scale[n](rng)", kernels_of=kernel, packages=("triton",))

    assert digest() == digest(("    return half", "    # a comment\n    return half"))
    edits = [("x / 2", "x / 3"), ("constexpr(2)", "constexpr(3)"), ("N: tl.constexpr", "N"), ("* TWICE", "+ TWICE")]
    edits += [("@jit.jit\ndef half", "@jit.jit(noinline=True)\ndef half")]
    assert len({digest(), *(digest(each) for each in edits)}) == 1 + len(edits)
    with pytest.raises(NotFollowed, match=r"kernels_of\.scale"):
        digest(("@jit.jit\ndef scale", "@jit.Autotuner\n@jit.jit\ndef scale"))


RAW = """
class RawKernel:
    def __init__(self, code, name, options=(), backend="nvrtc", enable_cooperative_groups=False):
        self.code, self.name, self.options, self.backend = code, name, options, backend
        self.enable_cooperative_groups = enable_cooperative_groups
"""


def test_a_kernel_of_cupy_is_followed_unless_it_includes_files(draw: Digest, load: Load) -> None:
    load("cupy._core.raw", RAW).__file__ = ""  # not in the tree

    def digest(code: str, more: str = "") -> str:
        return draw("scale(rng)", f"from cupy._core.raw import RawKernel\nscale = RawKernel({code!r}, 'scale'{more})")

    kernels = [digest("x *= 2"), digest("x *= 3"), digest("x *= 2", ", options=('-use_fast_math',)")]
    assert len({*kernels, digest("x *= 2")}) == 3
    with pytest.raises(NotFollowed, match="RawKernel"):
        digest('#include "own.h"')


COMPILERS = """
import functools
def compile(fn):
    @functools.wraps(fn)
    def compiled(*given):
        return fn(*given)
    return compiled
class Compiled:
    def __init__(self, fn):
        self.fn, self.__name__ = fn, fn.__name__
"""


@pytest.mark.parametrize("decorator", ["compile", "Compiled"])
def test_a_function_that_another_package_compiles_is_unknown(
    decorator: str, draw: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch.compile and CuTe DSL do: what they make of it is measured, and never taken for the same."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "compilers.py").write_text(COMPILERS)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    scale = f"import compilers\n@compilers.{decorator}\ndef scale(x):\n    return 2 * x\n"
    with pytest.raises(NotFollowed, match="scale"):
        draw("from scales import scale\n    scale(rng)", scales=scale, packages=("compilers",))


def test_a_function_without_a_file_is_not_followed(tmp_path: Path) -> None:
    made: dict[str, Any] = {"math": math}
    exec("def draw(rng):\n    return math.pi", made)
    with pytest.raises(NotFollowed):
        digest_of_source(made["draw"], tmp_path)


def test_a_file_that_changed_since_it_was_loaded_is_not_followed(load: Load, tmp_path: Path) -> None:
    module = load("changing", DRAW.format(top="", body="return rng.random(n)"))
    Path(str(module.__file__)).write_text(DRAW.format(top="", body="return rng.random(n) + 1"))
    with pytest.raises(NotFollowed, match="the source of draw is not found in changing"):
        digest_of_source(module.draw, tmp_path)
