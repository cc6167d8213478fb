"""Lists what is unusual in the text of a kernel or of a declaration: remarks for whoever reads foreign code.

None of it is a verdict: honest code has reasons for most of these. A text that hides what it does is not seen through.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Remark:
    """A line of a text, and what is unusual there."""

    line: int
    text: str


@dataclass(frozen=True)
class Token:
    """A word, a number or a sign of C++ text. ``text``: of a string with its quotation marks."""

    text: str
    line: int


TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
    |(?P<raw>\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z))
    |(?P<string>(?:\b(?:u8|[uUL]))?"(?:\\.|[^"\\\n])*")
    |(?P<character>'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><<<|>>>|::|->|[^\s\\])""",
    re.DOTALL | re.VERBOSE,
)
OPENING, CLOSING = "([{", ")]}"
CONDITIONS = frozenset({"if", "while", "switch", "for"})
KEPT = frozenset({"__device__", "__managed__"})
FUNCTIONS = frozenset({"__global__", "__device__"})
ENDS_OF_NAMES = ("=", ";", "[", "{", ",")
ASM = frozenset({"asm", "__asm__", "__asm"})
LONGEST = 1000  # tokens of a declaration or a condition that are looked at
ATTRIBUTES = frozenset({"alignas", "__align__", "__attribute__", "__launch_bounds__", "__declspec"})
TIME = "looks at the time: what it does may depend on it"
BUILD = "tells builds, compilers or devices apart"
CACHE = "changes what the caches keep, also for what runs afterwards"
INCLUDES = "reads another file into the build: whatever this user may read"
CHILD = "launches a kernel from a kernel"
WORDS: Mapping[str, str] = {
    **dict.fromkeys(("clock", "clock64", "globaltimer", "__nanosleep", "nanosleep"), TIME),
    **dict.fromkeys(("__TIME__", "__DATE__", "__TIMESTAMP__"), TIME),
    **dict.fromkeys(("__SANITIZE_THREAD__", "__SANITIZE_ADDRESS__", "_GLIBCXX_TSAN", "__SOFTCUDA__"), BUILD),
    **dict.fromkeys(("__has_feature", "__has_include", "__BASE_FILE__"), BUILD),
    **dict.fromkeys(("cudaAccessPolicyWindow", "accessPolicyWindow", "access_property", "annotated_ptr"), CACHE),
    **dict.fromkeys(("createpolicy", "prefetch", "prefetchu", "discard", "applypriority", "__builtin_prefetch"), CACHE),
    "incbin": INCLUDES,
    **dict.fromkeys(("cudaLaunchDevice", "cudaGetParameterBuffer", "cudaStreamFireAndForget"), CHILD),
    **dict.fromkeys(("cudaStreamTailLaunch", "cudaGraphLaunch", "cudaLaunchKernel"), CHILD),
}
CALLED = frozenset({"clock", "clock64", "prefetch", "discard", "cudaGraphLaunch", "cudaLaunchKernel"})  # else: a name
PTX_WORD = re.compile(r"%?[A-Za-z_]\w*")


def in_cuda(text: str) -> list[Remark]:
    """List what is unusual in CUDA C++. Comments and strings do not count, but for inline PTX."""
    return sorted({*_Cuda(text).remarks()})


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of C++ text, without comments."""
    line, done = 1, 0
    for match in TOKEN.finditer(text):
        line, done = line + text.count("\n", done, match.start()), match.start()
        if match.lastgroup != "comment":
            yield Token(match[0], line)


class _Cuda:
    """A file of CUDA C++: its tokens, and where each bracket is closed."""

    def __init__(self, text: str) -> None:
        self.tokens = [*tokens_of(text), Token(";", 0)]
        self._texts = [token.text for token in self.tokens]
        self._ends: dict[int, int] = {}  # of brackets, behind those that close them
        open_ones: list[int] = []
        for i, sign in enumerate(self._texts):
            if sign in OPENING:
                open_ones.append(i)
            elif sign in CLOSING and open_ones:
                self._ends[open_ones.pop()] = i + 1

    def remarks(self) -> Iterator[Remark]:
        device = [*self._device_code()]
        kept = dict(self._variables({*device}))
        for name, line in kept.items():
            yield Remark(line, f"`{name}` outlives a launch")
        if kept:
            yield from self._branches(kept)
        yield from self._words()
        for i in device:
            if self._texts[i] == "<<<":
                yield Remark(self.tokens[i].line, f"`<<<` {CHILD}")

    def _end_of(self, start: int) -> int:
        """Return the index behind the bracket that closes the one at ``start``."""
        return self._ends.get(start, len(self.tokens))

    def _variables(self, device: Set[int]) -> Iterator[tuple[str, int]]:
        """Yield names and lines of variables in a GPU's memory that are kept from launch to launch.

        ``device``: the places of tokens in functions that run on a GPU.
        """
        for i, text in enumerate(self._texts):
            if text in KEPT or (text == "static" and i in device):
                words = self._declaration(i)
                constant = "constexpr" in words or ("const" in words and "*" not in words)
                if words and not constant and not {*words} & {"__shared__", "__constant__"}:
                    yield from self._names_from(i)

    def _declaration(self, start: int) -> list[str]:
        """Return the words of a variable's declaration up to its name; none of a function's."""
        words, i = list[str](), start
        while i < min(start + LONGEST, len(self.tokens)):
            text = self._texts[i]
            if text in ATTRIBUTES and self._texts[i + 1] == "(":
                i = self._end_of(i + 1)
                continue
            if text in ENDS_OF_NAMES:
                return words
            if text in ("(", ")", "}", "operator"):
                return []
            words.append(text)
            i += 1
        return []

    def _names_from(self, start: int) -> Iterator[tuple[str, int]]:
        """Yield the names of all variables of a declaration, with their lines: the words before what ends a name."""
        i, named = start + 1, False
        while i < min(start + LONGEST, len(self.tokens)) and self._texts[i] not in (";", *KEPT):
            if self._texts[i] in OPENING:
                i = self._end_of(i) - 1
            elif not named and _is_word(self._texts[i]) and self._texts[i + 1] in ENDS_OF_NAMES:
                yield self._texts[i], self.tokens[i].line
                named = True
            named = named and self._texts[i] != ","
            i += 1

    def _device_code(self) -> Iterator[int]:
        """Yield the places of tokens in functions that run on a GPU."""
        i = 0
        while i < len(self.tokens):
            if self._texts[i] in FUNCTIONS and not self._declaration(i):
                opening = next(j for j in range(i, len(self.tokens)) if self._texts[j] in "{;")
                end = self._end_of(opening) if self._texts[opening] == "{" else opening
                yield from range(opening, end)
                i = end
            i += 1

    def _branches(self, kept: Mapping[str, int]) -> Iterator[Remark]:
        """Yield conditions that name a variable which outlives a launch."""
        statement = 0
        for i, text in enumerate(self._texts):
            condition = range(0)
            if text in CONDITIONS and self._texts[i + 1] == "(":
                condition = range(i + 1, min(self._end_of(i + 1), i + LONGEST))
            elif text == "?":
                condition = range(max(statement, i - LONGEST), i)
            elif text in ("=", ";", "{", "}", "return"):
                statement = i
            for name in {self._texts[j] for j in condition} & kept.keys():
                yield Remark(self.tokens[i].line, f"branches on `{name}`, which outlives a launch")

    def _words(self) -> Iterator[Remark]:
        """Yield remarks on names that are looked for, in the text and in inline PTX."""
        for i, token in enumerate(self.tokens):
            why = BUILD if token.text.startswith("SOFTCUDA_") else WORDS.get(token.text)
            if why and (token.text not in CALLED or self._is_called(i)):
                yield Remark(token.line, f"`{token.text}` {why}")
            elif token.text in ("include", "embed") and self._texts[i - 1] == "#" and self._is_whole_path(i + 1):
                yield Remark(token.line, f"`#{token.text}` {INCLUDES}")
            elif token.text in ASM:
                opening = next((j for j in range(i, min(i + 4, len(self.tokens))) if self._texts[j] == "("), i)
                for each in self.tokens[opening : min(self._end_of(opening), opening + LONGEST)]:
                    for word in PTX_WORD.findall(each.text) if '"' in each.text else ():
                        if why := WORDS.get(word.lstrip("%")):
                            yield Remark(each.line, f"`{word}` {why}")

    def _is_whole_path(self, i: int) -> bool:
        """Tell whether a file is named by its path from the root on."""
        return self._texts[i].startswith('"/') or self._texts[i : i + 2] == ["<", "/"]

    def _is_called(self, i: int) -> bool:
        """Tell whether a name is called, and is not a member's or that of a function that is declared here."""
        before = self._texts[i - 1] if i else ";"
        declared = _is_word(before) and before not in ("return", "else", "do", "case")
        return self._texts[i + 1] == "(" and before not in (".", "->") and not declared


def _is_word(text: str) -> bool:
    return text[0].isalpha() or text[0] == "_"


# What a declaration's Python names, by the beginning of the whole name, and why that is unusual in one.
OTHER_WORK = "work there is not on the stream that is timed"
HIDDEN = "looks into, or changes, what runs beside it"
PYTHON: Mapping[str, str] = {
    "torch.cuda.Event": "is what a timer uses",
    "cupy.cuda.Event": "is what a timer uses",
    "torch.cuda.Stream": OTHER_WORK,
    "cupy.cuda.Stream": OTHER_WORK,
    **dict.fromkeys(("threading", "_thread", "multiprocessing", "concurrent.futures", "asyncio"), OTHER_WORK),
    **dict.fromkeys(("subprocess", "os.fork", "os.system", "os.popen", "os.posix_spawn", "os.exec"), "starts programs"),
    **dict.fromkeys(("time", "datetime"), TIME),
    **dict.fromkeys(("sys.modules", "sys.meta_path", "sys.path_hooks", "sys.settrace", "sys.setprofile"), HIDDEN),
    **dict.fromkeys(("sys._getframe", "sys._current_frames", "inspect", "gc", "traceback", "builtins"), HIDDEN),
    **dict.fromkeys(("pycuda", "cuda.bindings", "importlib.reload", "unittest.mock"), HIDDEN),
    **dict.fromkeys(("ctypes", "cffi"), "calls C libraries, of which the driver is one"),
    **dict.fromkeys(("atexit", "signal", "weakref.finalize", "pickle", "marshal"), HIDDEN),
    **dict.fromkeys(("eval", "exec", "compile", "__import__"), "runs a text as code"),
    **dict.fromkeys(("open", "os.open", "io.open", "numpy.load", "numpy.fromfile", "torch.load"), "reads files"),
    **dict.fromkeys(("os.environ", "os.getenv"), "reads the environment, which may differ between runs"),
}
READS = frozenset({"read_text", "read_bytes"})
PUBLIC = ("warpwatch", "warpwatch.testing", "warpwatch.results")


def in_python(text: str) -> list[Remark]:
    """List what is unusual in a declaration's Python; a text that does not compile is that alone."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [Remark(getattr(error, "lineno", 1) or 1, "is not Python")]
    return sorted({*_Python(tree).remarks()})


class _Python:
    """A module of Python: its nodes, what imported names stand for, and the names that it makes itself."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = [*ast.walk(tree)]
        self._names: dict[str, str] = {}
        for node in self._nodes:
            if isinstance(node, ast.Import):
                roots = ((each, each.name.partition(".")[0]) for each in node.names)
                self._names |= {each.asname or root: each.name if each.asname else root for each, root in roots}
            elif isinstance(node, ast.ImportFrom):
                self._names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        self._own = {node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._own |= {node.arg for node in self._nodes if isinstance(node, ast.arg)}
        self._own |= {node.name for node in self._nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    def remarks(self) -> Iterator[Remark]:
        """Yield what is unusual; an import once, and not each use of it."""
        inner = {id(node.value) for node in self._nodes if isinstance(node, ast.Attribute)}
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._imported(node)
            elif isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
                yield from self._named(node)
            elif isinstance(node, ast.Global):
                yield Remark(node.lineno, f"keeps `{', '.join(node.names)}` from call to call")
            elif isinstance(node, ast.Call):
                yield from self._called(node)

    def _whole(self, node: ast.AST) -> str:
        """Return the whole name of what an expression names, such as torch.cuda.Event; empty for others."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self._names.get(node.id, node.id), *reversed(parts)])

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[Remark]:
        for each in node.names:
            name = each.name if isinstance(node, ast.Import) else f"{node.module}.{each.name}"
            module = name if isinstance(node, ast.Import) else str(node.module)
            if module.partition(".")[0] == "warpwatch" and module not in PUBLIC:
                yield Remark(node.lineno, f"`{module}` is a module of the engine's own")
            elif why := _why(name):
                yield Remark(node.lineno, f"`{name}` {why}")

    def _named(self, node: ast.Attribute | ast.Name) -> Iterator[Remark]:
        name, root = self._whole(node), self._root(node)
        if not isinstance(node.ctx, ast.Load):
            if isinstance(node, ast.Attribute) and root in self._names:
                yield Remark(node.lineno, f"changes `{name}`, which is not its own")
        elif root in self._names or (root in dir(builtins) and root not in self._own):
            yield from self._used(name, root, node.lineno)

    def _used(self, name: str, root: str, line: int) -> Iterator[Remark]:
        if (why := _why(name)) and not _why(self._names.get(root, "")):  # else its import was told
            yield Remark(line, f"`{name}` {why}")

    def _root(self, node: ast.AST) -> str:
        while isinstance(node, ast.Attribute):
            node = node.value
        return node.id if isinstance(node, ast.Name) else ""

    def _called(self, node: ast.Call) -> Iterator[Remark]:
        if isinstance(node.func, ast.Attribute) and node.func.attr in READS:
            yield Remark(node.lineno, f"`{node.func.attr}` reads files")
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        root = self._root(node.args[0]) if node.args else ""
        if root in self._names and called in ("setattr", "delattr"):
            yield Remark(node.lineno, f"changes `{self._whole(node.args[0])}`, which is not its own")
        elif root in self._names and called == "getattr" and isinstance(node.args[-1], ast.Constant):
            yield from self._used(f"{self._whole(node.args[0])}.{node.args[-1].value!s}", root, node.lineno)


def _why(name: str) -> str:
    """Say why a whole name is unusual; empty where it is not."""
    parts = name.split(".")
    return next((PYTHON[known] for n in range(len(parts), 0, -1) if (known := ".".join(parts[:n])) in PYTHON), "")
