"""Kernels that are texts in Python: which text a declaration means, and the line of the file of each of its lines."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from warpwatch.catalogue import safe_values
from warpwatch.catalogue.texts import Text, from_python, returned_text, text

KERNEL = "__global__ void f(float* x)\n{\n    x[0] = 8;\n}\n"
# Files of others, none of which can be run: what is read under which name, and with which values.
STRINGS: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "a literal": (f'code = """\n{KERNEL}"""', "code", (), {}),
    "literals that Python joins": (
        'code = ("__global__ void f(float* x)\\n"\n\n"{\\n"  # a comment\n"    x[0] = 8;\\n" "}\\n")',
        "code",
        (),
        {},
    ),
    "a raw literal": (f'code = r"""{KERNEL}"""', "code", (), {}),
    "lines that go on": ('code = """__global__ void f(float* x)\\\n {\n    x[0] = 8;\n}\n"""', "code", (), {}),
    "a concatenation": (f'HEAD = "// eight\\n"\ncode = HEAD + """\n{KERNEL}"""', "code", (), {}),
    "added": (f'code = """{KERNEL}"""\ncode += "// eight\\n"', "code", (), {}),
    "an f-string": ('N = 8\ncode = f"""__global__ void f(float* x)\n{{\n    x[0] = {N};\n}}\n"""', "code", (), {}),
    "an f-string with a value of others": (
        'def make(n):\n    return f"""__global__ void f(float* x)\n{{\n    x[0] = {2 * n};\n}}\n"""',
        "make",
        (),
        {"n": 4},
    ),
    "percent": ('code = """__global__ void f(float* x)\n{\n    x[0] = %d;\n}\n""" % 8', "code", (), {}),
    "percent with a value": (
        'code = """__global__ void f(float* x)\n{\n    x[0] = %(N)s; // 1 %% 2\n}\n"""\nrun(code % parameters)',
        "code",
        (),
        {"N": 8},
    ),
    "format with a value": (
        'code = """__global__ void f(float* x)\n{{\n    x[0] = {};\n}}\n"""\nrun(code.format(number))',
        "code",
        (8,),
        {},
    ),
    "a template": (
        'from string import Template\ncode = Template("""__global__ void f(float* x)\n{\n    x[0] = ${N};\n}\n""")',
        "code",
        (),
        {"N": 8},
    ),
    "a template that is filled in": (
        'import string\ncode = """__global__ void f(float* x)\n{\n    x[0] = $N;\n}\n"""\n'
        "code = string.Template(code).substitute(N=8)",
        "code",
        (),
        {},
    ),
    "an indented one": (
        'import textwrap\ncode = textwrap.dedent("""\n    __global__ void f(float* x)\n    {\n'
        '        x[0] = 8;\n    }\n""")',
        "code",
        (),
        {},
    ),
    "a module of PyCUDA's": (f'import absent\nmod = absent.SourceModule("""\n{KERNEL}""")', "mod", (), {}),
    "a RawModule": (f'import cupy\nmod = cupy.RawModule(options=(), code=r"""{KERNEL}""")', "mod", (), {}),
    "a kernel of a module, which has several names": (
        f'mod = SourceModule("""{KERNEL}""")\nfunction = mod.get_function("f")',
        "f",
        (),
        {},
    ),
    "a kernel of a module": (
        f'mod = SourceModule("""{KERNEL}""")\nfunction = mod.get_function("f")',
        "function",
        (),
        {},
    ),
    "what a function of theirs is given": (f'launch("f", """{KERNEL}""", {{}})', "f", (), {}),
    "a RawKernel without a name": (f'import cupy\nrun(cupy.RawKernel(r"""{KERNEL}""", "f"))', "f", (), {}),
    "in a function": (f'def run():\n    code = """{KERNEL}"""\n    go(code)', "code", (), {}),
    "in a method": (f'class A:\n    def run(self):\n        self.code = """{KERNEL}"""', "A.run.code", (), {}),
    "an entry of a dictionary": (f'KERNELS = {{"f": """{KERNEL}"""}}', "KERNELS['f']", (), {}),
    "replaced": (f'code = """{KERNEL}""".replace("float", "double").strip()', "code", (), {}),
}


def lines_of(read: Text) -> dict[str, int]:
    """The line of the Python file that each line of a text has."""
    places = {line: read.place(number) for number, line in enumerate(read.code.split("\n"), 1) if line.strip()}
    assert all(places.values()), read
    return {line: place[1] for line, place in places.items() if place}


@pytest.mark.parametrize(("written", "name", "values", "named"), STRINGS.values(), ids=STRINGS)
def test_a_text_of_a_file_is_read_with_its_lines(
    tmp_path: Path, written: str, name: str, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    (tmp_path / "theirs.py").write_text(f"import not_installed\n\n1 / 0\n{written}\n")
    read = from_python(tmp_path / "theirs.py", name, *values, **named)
    assert not read.problem
    assert re.search(r"__global__ void f\((float|double)\* x\)\s*\{\s*x\[0\] = 8;", read.code)
    file = (tmp_path / "theirs.py").read_text().split("\n")
    for line, number in lines_of(read).items():
        start = re.split(r"8|\bfloat|\bdouble", line)[0].strip()
        assert start in file[number - 1], (line, number, file[number - 1])


@pytest.mark.parametrize(
    ("written", "name", "named", "problem"),
    [
        ('code = "__global__ void f() {}"', "cod", {}, "theirs.py has no text of that name; it has code"),
        ('run("__global__ void __launch_bounds__(4) f() {}")', "g", {}, "theirs.py has no text of that name; it has f"),
        ("code = read('x.cu')", "code", {}, "read has a value only when the file runs: give it, as read=..."),
        ('def f(n): return "%d" % n', "f", {}, "n has a value only when the file runs: give it, as n=..."),
        ("code = 5", "code", {}, "it is int, not a text"),
        ('code = "a"', "code", {"N": 1}, "it has no place for N"),
        ('code = "$N $M"', "code", {"M": 1}, "it has a place for N, which has no value: give N=..."),
        ('if X: code = "a"\nelse: code = "b"', "code", {}, "code has a value only when the file runs"),
        ("code = (", "code", {}, "is not Python"),
        (
            'def a(): c = "__global__ x"\ndef b(): c = "__global__ y"',
            "c",
            {},
            "has several of that name: it has a.c, b.c",
        ),
        (
            'a = "__global__ void f() {}"\nb = "__global__ void f() { }"',
            "f",
            {},
            "has several of that name: it has a, b",
        ),
    ],
)
def test_a_text_that_cannot_be_read_is_a_sentence(
    tmp_path: Path, written: str, name: str, named: dict[str, Any], problem: str
) -> None:
    (tmp_path / "theirs.py").write_text(written)
    read = from_python(tmp_path / "theirs.py", name, **named)
    assert read.problem.startswith("cannot be read by from_python(")
    assert problem in read.problem


def test_a_file_is_looked_for_above_the_declaration_as_far_as_the_repository_goes(tmp_path: Path) -> None:
    (tmp_path / "repository" / "perf").mkdir(parents=True)
    (tmp_path / "repository" / "pyproject.toml").touch()
    (tmp_path / "repository" / "theirs.py").write_text(f'code = """{KERNEL}"""')
    (tmp_path / "outside.py").write_text(f'code = """{KERNEL}"""')
    module = loaded(
        tmp_path / "repository" / "perf" / "declared.py",
        'READ = ww.from_python("theirs.py", "code")\nOUTSIDE = ww.from_python("outside.py", "code")\n',
    )
    assert module.READ.code == KERNEL
    assert "there is no file outside.py" in module.OUTSIDE.problem


def loaded(path: Path, code: str) -> Any:
    """Import a module with this code."""
    path.write_text(f"import warpwatch as ww\n{code}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_text_in_a_declaration_knows_its_lines(tmp_path: Path) -> None:
    loaded(tmp_path / "elsewhere.py", f'\n\nCODE = """{KERNEL}"""\n')
    module = loaded(
        tmp_path / "declared.py",
        "from elsewhere import CODE\n"
        f'OWN = ww.text("""\n{KERNEL}""")\n'
        "OTHERS = ww.text(CODE)\n"
        "N = int('8')\n"
        'MADE = ww.text(f"""__global__ void f(float* x)\n{{\n    x[0] = {N};\n}}\n""")\n'
        f'def wrapped(code): return ww.text(code)\nWRAPPED = wrapped("""\n{KERNEL.replace("8", "9")}""")\n'
        'PIECES = ww.text("".join(["__global__", " void f() {}", chr(10)]))\n',
    )
    assert module.OWN.marks == ((0, str(tmp_path / "declared.py"), 3),)
    assert module.OWN.place(3) == (tmp_path / "declared.py", 5)
    assert module.OTHERS.place(1) == (tmp_path / "elsewhere.py", 4)
    assert lines_of(module.MADE)["    x[0] = 8;"] == 13
    assert lines_of(module.WRAPPED)["    x[0] = 9;"] == 20
    assert (module.PIECES.marks, module.PIECES.file) == ((), None)


def made(n: int) -> str:
    if not n:
        return "nothing"
    code = f"""__global__ void f(float* x)
{{
    x[0] = {n};
}}
"""
    return code  # noqa: RET504  # which is looked up


def test_what_a_function_returns_has_the_lines_of_its_literals() -> None:
    first = made.__code__.co_firstlineno
    assert lines_of(returned_text(made, made(8)))["    x[0] = 8;"] == first + 5
    with pytest.raises(TypeError, match="it returns bytes: give CUDA C\\+\\+ as a str"):
        returned_text(made, b"")


def test_compilers_are_told_where_lines_come_from_in_as_few_words_as_possible(tmp_path: Path) -> None:
    read = Text("a\nb \\\nc\nd", ((0, f'{tmp_path}/perf/"x".py', 7), (2, f"{tmp_path}/y.py", 1), (3, "/z.py", 4)))
    assert read.numbered(tmp_path) == '#line 7 "perf/\\"x\\".py"\na\nb \\\nc\n#line 4 "/z.py"\nd'
    assert [read.place(line) for line in (1, 2, 4)] == [
        (tmp_path / 'perf/"x".py', 7),
        (tmp_path / 'perf/"x".py', 8),
        (Path("/z.py"), 4),
    ]
    assert Text("a").numbered(tmp_path) == "a"


def test_text_takes_a_str_or_a_function() -> None:
    assert text(made).make is made
    assert text(7).problem == "is a text of int: give ww.text a str of CUDA C++"  # type: ignore[arg-type]


HOSTILE = {
    "a module of a module": 'str(textwrap.re.enum.sys.modules["os"].system("touch ran"))',
    "an imported one": '_re.enum.sys.modules["os"].system("touch ran")',
    "a method of a class": "f'{str.__subclasses__()}'",
    "classes": "f'{().__class__.__base__.__subclasses__()}'",
    "attributes in a format": '"{0.template.__class__.__mro__}".format(Template("a"))',
    "a power": '"%d" % 9**9**9',
    "a power of a literal": f"'%x' % 0x{'f' * 100_000}**64",
    "a product": '"a" * 10**12',
    "a width": 'f"{1:>{10**9}}"',
    "another width": '"{:>999999999}".format(1)',
    "a width of a number": '"%((a))999999999d" % {"(a)": 1}',
    "loops": '"".join(str(a) for a in range(9999) for b in range(9999) for c in range(9999))',
    "a long loop": "min(range(10**12))",
    "replacements": '("a" * 10**6).replace("a", "b" * 10**6)',
    "itself": "code",
    "each other": "other",
}


@pytest.mark.parametrize("written", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_neither_runs_nor_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(f"from string import _re\ncode = {written}\nother = code\n")
    assert from_python(tmp_path / "theirs.py", "code").problem
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "lines",
    [
        [f'a0 = "{KERNEL[:10]}"', *(f"a{n + 1} = a{n} + a{n}" for n in range(60)), "code = a60"],
        ["a0 = []", *(f"a{n + 1} = [a{n}, a{n}]" for n in range(60)), "code = a60"],
        ['a0 = ""', *(f"a{n + 1} = a{n}" for n in range(400)), "code = a400"],
        [f"code = {'(' * 5000}{')' * 5000}"],
        [f"code = {'-' * 50_000}1"],
    ],
    ids=["doubled", "lists", "a chain", "parentheses", "signs"],
)
def test_a_file_whose_names_grow_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    monkeypatch.setattr(safe_values, "LARGEST", 500_000)
    (tmp_path / "theirs.py").write_text("\n".join(lines))
    assert from_python(tmp_path / "theirs.py", "code").problem
    assert from_python(tmp_path / "theirs.py", "absent").problem


def test_a_text_with_many_places_is_matched_at_once(tmp_path: Path) -> None:
    """A pattern that may stretch in sixty places takes days to find that a text is not of it."""
    fields = ",".join("{n}" for _ in range(60))
    module = loaded(
        tmp_path / "declared.py",
        f'n = 8\nOWN = ww.text(f"""__global__ void f();\n{fields};""" + "tail")\n'
        'CODE = "".join(["__global__ void f();", chr(10), "8," * 400, "!"])\nOTHER = ww.text("".join([CODE]))\n',
    )
    assert (module.OWN.place(2), module.OTHER.marks) == ((tmp_path / "declared.py", 4), ())
