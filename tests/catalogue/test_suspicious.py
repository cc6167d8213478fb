"""Tests that unusual lines of kernels and declarations are listed, and no others."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.command import arguments
from tests.project import PROJECT, ROOT
from warpwatch.catalogue.suspicious import Remark, in_cuda, in_python, tokens_of
from warpwatch.cli import list as listing
from warpwatch.devices.compile.builds import suspicious_lines
from warpwatch.plugin import reports
from warpwatch.plugin.device import PROJECT as LOADED
from warpwatch.plugin.device import WORKER

TIME, BUILD = "looks at the time: what it does may depend on it", "tells builds, compilers or devices apart"
INCLUDES = "reads another file into the build: whatever this user may read"
CACHE = "changes what the caches keep, also for what runs afterwards"
CUDA: list[tuple[str, list[str]]] = [
    ("__device__ int launches;", ["`launches` outlives a launch"]),
    (
        "static __device__ float cache[1024], *last = nullptr;",
        ["`cache` outlives a launch", "`last` outlives a launch"],
    ),
    ("__managed__ unsigned long long n = 0;", ["`n` outlives a launch"]),
    ("__device__ __align__(16) float4 kept[8];", ["`kept` outlives a launch"]),
    ("namespace a { __device__ volatile int flag{}; }", ["`flag` outlives a launch"]),
    ("__device__ const float* table;", ["`table` outlives a launch"]),
    ("__global__ void f() { static int calls = 0; calls++; }", ["`calls` outlives a launch"]),
    (
        "__device__ int done;\n__global__ void f(float* y) {\n  if (done) return;\n  *y = done ? 1 : 2; done = 1;\n}",
        ["`done` outlives a launch", *2 * ["branches on `done`, which outlives a launch"]],
    ),
    ("__global__ void f(long long* y) { *y = clock64() + clock(); }", [f"`clock64` {TIME}", f"`clock` {TIME}"]),
    ("__device__ void f() { __nanosleep(100); }", [f"`__nanosleep` {TIME}"]),
    ('__device__ void f() { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); }', [f"`%globaltimer` {TIME}"]),
    ('void f() { asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;"); }', [f"`createpolicy` {CACHE}"]),
    ('void f() { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }', [f"`prefetch` {CACHE}"]),
    ("void f() { cudaStreamAttrValue v; v.accessPolicyWindow.hitRatio = 1; }", [f"`accessPolicyWindow` {CACHE}"]),
    ("#ifdef __SANITIZE_THREAD__\n#endif", [f"`__SANITIZE_THREAD__` {BUILD}"]),
    (
        "#if defined(SOFTCUDA_CHECKED) || __SOFTCUDA__\n#endif",
        [f"`SOFTCUDA_CHECKED` {BUILD}", f"`__SOFTCUDA__` {BUILD}"],
    ),
    ("__global__ void f() { if (__TIME__[7] & 1) return; }", [f"`__TIME__` {TIME}"]),
    ('#include "/etc/shadow"\n#  include </root/x>', 2 * [f"`#include` {INCLUDES}"]),
    ('char a[] = {\n#embed "/a"\n};', [f"`#embed` {INCLUDES}"]),
    ('asm(".incbin \\"/etc/shadow\\"");', [f"`incbin` {INCLUDES}"]),
    ("__global__ void f() { child<<<1, 1>>>(); }", ["`<<<` launches a kernel from a kernel"]),
    ("__global__ void f() { cudaGraphLaunch(g, s); }", ["`cudaGraphLaunch` launches a kernel from a kernel"]),
]
HONEST_CUDA = [
    '#include "../csrc/a.cuh"\n#include <cuda/barrier>\n__device__ int embed(int include) { return include / 2; }',
    "// __device__ int launches;\n/* clock64() */ __device__ float f(float x) { return x; }",
    'const char* text = "__device__ int n; clock64()"; auto raw = R"x(__managed__ int a; " )x";',
    "__device__ constexpr int size = 4; __device__ const float table[] = {1, 2}; __constant__ float weights[9];",
    "template <class T> __device__ __forceinline__ T add(T a, T b) { return a + b; }",
    "__device__ __launch_bounds__(64) void f(int a = 3);",
    "struct A { __device__ A() : value{1} {} __device__ int operator[](int i) const { return i; } int value; };",
    "__global__ void f() { static __shared__ float tile[32]; static constexpr int n = 4; extern __shared__ int d[]; }",
    "int main() { kernel<<<1, 32>>>(); static int calls; return clock; }",
    "struct Timer { int clock(); }; __device__ int f(Timer t) { return t.clock() + t.prefetch(); }",
    "#ifdef __CUDACC__\n#endif\n#if __CUDA_ARCH__ >= 800\n#endif\nint a = 1'000'000; char c = '\"';",
    "__global__ void f(int* y) { int done = 0; if (done) *y = done ? 1 : 2; }",
]
OTHER = "work there is not on the stream that is timed"
HIDDEN = "looks into, or changes, what runs beside it"
READS = "reads files"
PYTHON: list[tuple[str, list[str]]] = [
    ("import torch\ntorch.cuda.Event = int", ["changes `torch.cuda.Event`, which is not its own"]),
    ("import torch\ne = torch.cuda.Event()", ["`torch.cuda.Event` is what a timer uses"]),
    ("from torch import cuda as c\ns = c.Stream()", [f"`torch.cuda.Stream` {OTHER}"]),
    ("from torch.cuda import Event", ["`torch.cuda.Event` is what a timer uses"]),
    ("import numpy as np\nnp.allclose = lambda *a: True", ["changes `numpy.allclose`, which is not its own"]),
    ("import numpy\nsetattr(numpy.linalg, 'norm', 1)", ["changes `numpy.linalg`, which is not its own"]),
    ("import numpy\ndel numpy.float32", ["changes `numpy.float32`, which is not its own"]),
    ("import torch\nevent = getattr(torch.cuda, 'Event')", ["`torch.cuda.Event` is what a timer uses"]),
    ("import time\ntime.sleep(1)\ntime.sleep(2)", [f"`time` {TIME}"]),
    ("def f():\n    from threading import Thread as T\n    T()", [f"`threading.Thread` {OTHER}"]),
    ("import sys\nsys.modules['numpy'] = None", [f"`sys.modules` {HIDDEN}"]),
    ("import sys\nframe = sys._getframe(1)", [f"`sys._getframe` {HIDDEN}"]),
    ("import gc, inspect", [f"`gc` {HIDDEN}", f"`inspect` {HIDDEN}"]),
    ("import ctypes\nctypes.CDLL('libcuda.so.1')", ["`ctypes` calls C libraries, of which the driver is one"]),
    ("from warpwatch.timing import timer", ["`warpwatch.timing` is a module of the engine's own"]),
    ("import warpwatch.devices.gpu", ["`warpwatch.devices.gpu` is a module of the engine's own"]),
    ("from pathlib import Path\nPath('kernels/__init__.py').read_text()", [f"`read_text` {READS}"]),
    ("open('expected.npy')", [f"`open` {READS}"]),
    ("import numpy as np\nnp.load('right.npy')", [f"`numpy.load` {READS}"]),
    ("exec('1')", ["`exec` runs a text as code"]),
    ("last = None\ndef f(x):\n    global last\n    last = x", ["keeps `last` from call to call"]),
    ("def f(:", ["is not Python"]),
    ("x = 1\0", ["is not Python"]),
]
HONEST_PYTHON = [
    '"""import ctypes"""\n# exec("1")\ntext = "torch.cuda.Event"',
    "import warpwatch as ww\nfrom warpwatch.testing import Case\nFAMILY = ww.Family('a')",
    "import torch\nqueue = torch.cuda.ExternalStream(1)\nwith torch.cuda.stream(queue):\n    pass",
    "def f(signal, time, gc):\n    compile = signal + time.x + gc\n    return compile",
    "import numpy as np\nx = np.zeros(3)\nx.shape = (3, 1)\nx[0] = np.float32(1)",
    "class A:\n    def open(self):\n        self.time = 1\n        return self.time\ndef open(x): return x\nopen(3)",
]


def texts(remarks: list[Remark]) -> list[str]:
    return [remark.text for remark in remarks]


@pytest.mark.parametrize(("text", "said"), CUDA, ids=[text for text, _ in CUDA])
def test_unusual_lines_of_kernels_are_listed(text: str, said: list[str]) -> None:
    assert sorted(texts(in_cuda(text))) == sorted(said)


@pytest.mark.parametrize("text", HONEST_CUDA)
def test_usual_kernels_have_no_remarks(text: str) -> None:
    assert in_cuda(text) == []


@pytest.mark.parametrize(("text", "said"), PYTHON, ids=[text for text, _ in PYTHON])
def test_unusual_lines_of_declarations_are_listed(text: str, said: list[str]) -> None:
    assert sorted(texts(in_python(text))) == sorted(said)


@pytest.mark.parametrize("text", HONEST_PYTHON)
def test_usual_declarations_have_no_remarks(text: str) -> None:
    assert in_python(text) == []


def test_a_remark_names_its_line() -> None:
    text = '/*\n\n*/ auto a = R"(\n)";\n\\\n__device__ // why\n  int n;'
    assert in_cuda(text) == [Remark(7, "`n` outlives a launch")]
    assert [(token.text, token.line) for token in tokens_of('a /* \n */ "b"')] == [("a", 1), ('"b"', 2)]


@pytest.mark.parametrize(
    "text",
    ["__device__ a, ", "if (", "__device__ int f(", "/*", 'R"(', "asm(", "a ? ", "__device__ int n; if (n ? ", "{"],
)
def test_a_text_that_is_made_to_take_long_does_not(text: str) -> None:
    begin = time.process_time()
    in_cuda(text * 5_000)
    assert time.process_time() - begin < 5


def test_the_suites_own_sources_have_few_remarks() -> None:
    lines = suspicious_lines(PROJECT)
    assert all("`ctypes` calls C libraries" in line for line in lines), lines
    assert [line.split(":")[0] for line in lines] == [
        "kernels/conv2d/cudnn.py", "kernels/copy/memcpy.py", "kernels/matmul/cublas.py",
        "kernels/matmul_half/cublas.py", "kernels/matvec/cublas.py",
    ]  # fmt: skip


def test_they_are_listed_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.run(PROJECT, **arguments("list", "--suspicious")) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == suspicious_lines(PROJECT)
    assert shown.err == "5 remarks; none of them is a verdict\n"


def test_a_project_that_is_one_file_is_looked_at_with_the_headers_of_its_kernels(tmp_path: Path) -> None:
    (tmp_path / "kept.h").write_text("__device__ int n;\n")
    (tmp_path / "own.cu").write_text('#include "kept.h"\nextern "C" __global__ void own(float* y) { *y = n++; }\n')
    (tmp_path / "long.cu").write_text(f"// {'x' * 2**20}\n")
    (tmp_path / "ready.cubin").write_bytes(b"")
    (tmp_path / "one.py").write_text(
        "import gc\nimport warpwatch as ww\n"
        "ONE = ww.Family('one', sizes=('n',), arrays=lambda n: {'y': ww.Out(n, 'float32')}, tests=((1,),),\n"
        "    reference=lambda n: __import__('numpy').ones(n), variants=(\n"
        "    ww.kernel('own', source='own.cu', configurations=(32,), x=0, y=None),\n"
        "    ww.kernel('text', source=ww.text('__device__ int m; // a text\\n'), configurations=(32,), x=0, y=None),\n"
        "    ww.kernel('made', source=lambda: '__device__ int made_text;\\n', configurations=(32,), x=0, y=None),\n"
        "    ww.kernel('long', source='long.cu', configurations=(32,), x=0, y=None),\n"
        "    ww.kernel('ready', source='ready.cubin', configurations=(32,), x=0, y=None)))\n"
    )
    code = f"""
from pathlib import Path
from warpwatch.catalogue.project import load_project
from warpwatch.devices.compile.builds import suspicious_lines
print(*suspicious_lines(load_project(Path({str(tmp_path)!r}), "one")), sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"one.py:1: `gc` {HIDDEN}",
        "one.py:4: `__import__` runs a text as code",
        "one.py:6: `m` outlives a launch",
        "one.py:7: `made_text` outlives a launch",
        "kept.h:1: `n` outlives a launch",
        "long.cu:1: is too long to be looked at: 1,048,580 characters",
        "ready.cubin:1: one ready: machine code is not looked at",
    ]


@pytest.mark.parametrize("untrusted", [True, False])
def test_a_run_of_foreign_code_says_them(untrusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SimpleNamespace(settings=SimpleNamespace(untrusted=untrusted))
    config = SimpleNamespace(stash={WORKER: worker, LOADED: PROJECT})
    monkeypatch.setattr(reports, "is_part", lambda config: False)
    assert reports._suspicious(config) == (suspicious_lines(PROJECT) if untrusted else [])  # type: ignore[arg-type]
