"""Stands in for nvcc: a .cu file goes in, an image for softcuda's driver comes out.

Takes what PyCUDA and this project pass to nvcc: -cubin, -ptx or -fatbin (all write the same image), -o, -D, -I, -arch,
--preprocess, --version, -v and a file. What stands in for NVRTC (nvrtc.cpp) adds --as NAME, for messages and findings,
and --name-expression.
The kernel is compiled by g++ as C++ behind cuda_dialect.h, its inline PTX as calls (ptx.py). ``--checks`` makes every
access visible to the checker. What CUDA has and this device has not is a compile error that names it, with file and
line.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import arithmetic
import assembly
import headers
import host_code
import instances
import messages
import outputs
import ptx
import reader
import restricted
import slices
import version
from messages import SOFTCUDA, BadKernel

import kernels

ENDS = ("cpp", "ii", "s", "dump", "inlined")  # of the files that a compilation writes
IMAGE = "softcuda's image"  # the name of what follows the kernel's file

# -gdwarf-4, because addr2line of binutils 2.40 mixes up the files of version 5. -fstack-clash-protection, so that a
# large frame touches what guards its stack. No section anchors: the gaps between variables would move them. A call at a
# function's end is no jump: who is called finds the line by the address to return to. Own sections, and hidden names:
# the linker leaves out functions of both sides that no kernel calls, with what they name of the host's. Some
# distributions' g++ fortifies by itself: glibc then defines memcpy and others in its headers, where ours are to stand.
# Lines are asked for, and places of variables are not.
FLAGS = ["-x", "c++", "-std=c++17", "-fPIC", "-O2", "-U_FORTIFY_SOURCE", "-g1", "-gdwarf-4",
         "-fno-var-tracking", "-fno-var-tracking-assignments",
         "-fstack-clash-protection", "-fno-plt", "-ffunction-sections", "-fvisibility=hidden",
         "-fno-section-anchors", "-fno-weak", "-fno-exceptions", "-fno-asynchronous-unwind-tables",
         "-fno-optimize-sibling-calls", "-fno-strict-aliasing",
         "-fno-tree-loop-distribute-patterns", "-Wno-narrowing"]  # fmt: skip
# Without scalar replacement of aggregates a float4 is loaded as one, so that its alignment is seen. g++ 14 would sink a
# read into the branch that uses it.
CHECKS = ["-fsanitize=thread", "-fsanitize=alignment,signed-integer-overflow,bounds",
          "--param=tsan-instrument-func-entry-exit=0", "-fno-tree-sra", "-fno-tree-sink"]  # fmt: skip
SAYING = ["-Xpreprocessor", "-v"]  # of -v: lets g++ name the folders in which it looks for headers
# What nvcc accepts, and g++ with -fpermissive alone: a member with the name of a type that its class has used, and a
# static constant of a class whose type is not an integer.
LENIENT = re.compile("changes meaning of|[‘']constexpr[’'] needed for in-class initialization")
MOST_LINES = 30_000  # of g++'s last intermediate form, with which a file is compiled once more
TOO_LARGE = ("comparisons of unset variables are not looked for, because the code has {:,} lines in g++'s last form, "
             f"{MOST_LINES:,} at most: give some of its kernels a file of their own")  # fmt: skip
# Of what g++ may take with all checks, before it is asked again with COARSER flags. nvcc takes 0.6 ms or more for each
# statement of functions of hundreds to thousands of them, so that the second number is four times its time.
FULL_SECONDS, FULL_STATEMENT_SECONDS = 30, 2.5e-3
COARSER = ["-O1", "-fno-tree-pta"]  # passes that grow as the square of a function are left out, and no check of memory
COARSE = ("checks are coarser, because g++ takes more than {} s with all of them: comparisons of unset variables are "
          "not looked for, and findings may say less: split it")  # fmt: skip
MOST_SECONDS = 300
TOO_LONG = f"nvcc (softcuda): error: it takes more than {MOST_SECONDS} s to compile: split it, or leave checks out"
# Volatile accesses call functions of their own: they hand on what a fence covers, and plain ones do not.
VOLATILE = "--param=tsan-distinguish-volatile=1"  # g++ 11 and later


class TooLong(BadKernel):
    """Raised where a compiler takes more processor time than it may."""


def main() -> int:
    # What g++ repeats of a source, whatever its encoding is, is handed on as it is.
    sys.stderr.reconfigure(errors="surrogateescape")
    options = parse(sys.argv[1:])
    if options["version"]:
        print(version.text(options["checks"]))
        return 0
    if options["list"]:
        print("compute_90")
        return 0
    if not options["source"]:
        print("nvcc (softcuda): no input file", file=sys.stderr)
        return 1
    if options["refused"]:
        print(
            f"nvcc (softcuda): {options['refused']}: it writes images alone, by -cubin, -ptx or -fatbin",
            file=sys.stderr,
        )
        return 1
    source = Path(options["source"])
    if source.is_relative_to(Path.cwd()):
        source = source.relative_to(Path.cwd())  # as messages name it
    if options["preprocess"]:
        command = ["g++", "-E", "-P", *FLAGS, *options["pass"], f"-I{SOFTCUDA}/include", str(source)]
        return subprocess.run(command, check=False).returncode
    own = Path(options["folder"], source.with_suffix(f".{options['phase']}").name)
    return compile_file(source, Path(options["output"] or own), options)


WITH_VALUES = {"arch", "gpu-architecture", "code", "gpu-code", "gencode", "generate-code", "std", "x", "maxrregcount",
               "fmad", "ftz", "e", "entries", "t", "threads", "rdc", "relocatable-device-code", "l", "library", "L",
               "library-path", "ccbin", "compiler-bindir", "Werror", "diag-suppress", "compiler-options", "Xcompiler",
               "Xptxas", "ptxas-options", "Xnvlink", "nvlink-options", "Xlinker", "linker-options"}  # fmt: skip
PHASES = {f"{dashes}{phase}": phase for dashes in ("-", "--") for phase in ("cubin", "ptx", "fatbin")}
SWITCHES = {"--version": "version", "-V": "version", "--list-gpu-arch": "list", "--preprocess": "preprocess",
            "-E": "preprocess", "--checks": "checks", "-v": "verbose"}  # fmt: skip
# Ask for outputs that it does not make.
REFUSED = {"c", "compile", "dc", "device-c", "dlink", "device-link", "lib", "link", "optix-ir", "ltoir", "run"}
NAMES = {"o": "output", "output-file": "output", "odir": "folder", "output-directory": "folder", "as": "as",
         "lowered-names": "names"}  # fmt: skip
LONG = {"--define-macro": "-D", "--include-path": "-I", "--undefine-macro": "-U"}
PASSED = re.compile(rf"(-[DIU]|{'|'.join(LONG)})=?(.*)", re.DOTALL)


def parse(arguments: list[str]) -> dict:
    options: dict = dict.fromkeys(SWITCHES.values(), False) | dict.fromkeys(NAMES.values(), "")
    options |= {
        "source": "",
        "phase": "cubin",
        "refused": "",
        "pass": [],
        "expressions": [],
        "checks": version.asks_for_checks(),
    }
    options |= {"fmad": True, "ftz": False}  # nvcc's defaults; ftz: float32 has no denormals
    rest = iter(arguments)
    for argument in rest:
        name, given, value = argument.lstrip("-").partition("=")
        if argument in SWITCHES:
            options[SWITCHES[argument]] = True
        elif argument in PHASES:
            options["phase"] = PHASES[argument]
        elif argument.startswith("-") and name in NAMES:
            options[NAMES[name]] = value if given else next(rest)
        elif argument.startswith("-") and name in REFUSED:
            options["refused"] = argument
        elif argument == "--name-expression":
            options["expressions"].append(next(rest))
        elif passed := PASSED.fullmatch(argument):
            options["pass"].append(LONG.get(passed[1], passed[1]) + (passed[2] or next(rest)))
        elif argument.startswith("-") and name in WITH_VALUES:
            value = value if given else next(rest)
            options["pass"] += of_architecture(value)
            options |= {name: value == "true"} if name in options else {}
        elif name == "use_fast_math":
            options |= {"fmad": True, "ftz": True}
        elif not argument.startswith("-"):
            options["source"] = argument
    return options


def of_architecture(named: str) -> list[str]:
    """Return the macro that nvcc defines for an architecture with features of its own."""
    return ["-D__CUDA_ARCH_FEAT_SM90_ALL"] if re.search(r"(?:sm|compute)_90a\b", named) else []


def compile_file(source: Path, output: Path, options: dict) -> int:
    """Write the image of a source. Returns the exit status."""
    text, host = source.read_text(errors="surrogateescape").removeprefix("\ufeff"), host_code.Host()
    source = Path(options["as"] or source)
    limit_seconds()
    try:
        with tempfile.TemporaryDirectory() as folder:
            written = compiled(Path(folder), text, source, options, host)
            assembled, shared = Path(folder, "whole.s"), Path(folder, "kernel.so")
            assembled.write_text(written, errors="surrogateescape")
            gxx("-shared", "-nostdlib", "-Wl,--gc-sections", "-Wl,--build-id=none", "-o", str(shared), str(assembled))
            image = shared.read_bytes()
    except BadKernel as error:
        sys.stderr.write(messages.explain(f"{error}\n", text, source, host.names))
        sys.stderr.write(headers.notes(host.missing))
        return 1
    sys.stderr.writelines([*host.warnings, *host_code.not_made(host.unit, host)])
    try:
        if options["names"]:
            names = instances.lowered_names(written, options["expressions"])
            outputs.write_whole(options["names"], names.encode(errors="surrogateescape"))
        outputs.write_whole(output, struct.pack("<8sQQ", b"SOFTCUDA", len(image), zlib.crc32(image)) + image)
    except OSError as error:
        print(f"nvcc (softcuda): {error.filename} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def compiled(folder: Path, text: str, source: Path, options: dict, host: host_code.Host) -> str:
    """Return the assembly of a source, with what the driver reads, and add to ``host`` what was set aside.

    Raises BadKernel.
    """
    main, preprocessed, target, dump, inlined = (folder / f"kernel.{end}" for end in ENDS)
    flags = flags_of(folder, source, main, options)
    reading = flags + (SAYING if options["verbose"] else [])
    read = functools.partial(preprocessed_text, main, preprocessed, text, source, options, reading, host)
    asked = instances.name_expressions(options["expressions"])
    unit, brought = unit_of(read([]) + asked, source), []
    dumped = [f"-fdump-tree-optimized-lineno={dump}", f"{slices.FLAG}={inlined}"]
    flags += arithmetic.flags(fused=options["fmad"])  # behind: no macro of theirs says which build this is
    flags += [*checks(), *dumped] if options["checks"] else []
    while True:
        plain = plain_cpp(unit, source, options["checks"], host)
        preprocessed.write_text(plain, errors="surrogateescape")
        try:
            written, note = unit_in_time(flags, preprocessed, target, options["checks"] and full_seconds(plain))
            break
        except BadKernel as error:
            lenient = ["-fpermissive"] if LENIENT.search(str(error)) and "-fpermissive" not in flags else []
            more = [] if host.without and not host.headers else headers.brought(str(error))
            if not set(more) <= set(brought):
                brought += more
                unit = unit_of(read(brought) + asked, source)
            elif not lenient and not host.learn(str(error)):
                raise BadKernel(host.complaint or str(error)) from error
            flags += lenient
    refuse_unread(unit)
    if options["checks"]:
        form, calls = (file.read_text(errors="surrogateescape") for file in (dump, inlined))
        host.warnings += [f"{source}: warning: {note}\n"] if note else []
        unset = "" if note else assembly.unset_variables(form)
        if unset and form.count("\n") <= MOST_LINES:  # not at once: with the calls the forms say other things
            written = compiled_unit([*flags, assembly.COMPARISONS], preprocessed, target)
        elif unset:
            host.warnings.append(f"{source}: warning: {TOO_LARGE.format(form.count(chr(10)))}\n")
        written = for_the_checker(assembly.with_nans(written, form), plain, calls, unset)
    return for_the_driver(written + assembly.text_in_assembly("softcuda_one_address", one_address(unit)), source)


def unit_in_time(flags: list[str], unit: Path, target: Path, seconds: int) -> tuple[str, str]:
    """Return the assembly of preprocessed C++, and a note where its checks are coarser.

    ``seconds``: that g++ may take with all checks, 0 where there are none. Raises BadKernel.
    """
    try:
        return compiled_unit(flags, unit, target, seconds or MOST_SECONDS), ""
    except TooLong:
        if not seconds:
            raise
        return compiled_unit([*flags, *COARSER], unit, target), COARSE.format(seconds)


def compiled_unit(flags: list[str], unit: Path, target: Path, seconds: int = MOST_SECONDS) -> str:
    """Return the assembly of preprocessed C++, through a file. Raises BadKernel, TooLong after so many seconds."""
    gxx("-S", "-fpreprocessed", "-w", *flags, str(unit), "-o", str(target), seconds=seconds)
    return target.read_text(errors="surrogateescape")


def full_seconds(plain: str) -> int:
    """Return how long g++ may take for preprocessed C++ with all checks: longer for more statements of the kernel's."""
    parts = re.split(r'^# \d+ "(.*?)".*$', plain, flags=re.MULTILINE)
    own = sum(text.count(";") for path, text in zip(parts[1::2], parts[2::2], strict=True) if kernels_own_path(path))
    return min(int(FULL_SECONDS + FULL_STATEMENT_SECONDS * own), MOST_SECONDS)


def refuse_unread(unit: reader.Unit) -> None:
    """Raise BadKernel for a kernel that g++ has taken as a function, because Clang has not read it."""
    for place in kernels.unread(unit):
        raise BadKernel("\n".join([f"{unit.place_of(place)}: error: Clang cannot read this kernel", *unit.errors()]))


def for_the_checker(written: str, plain: str, calls: str, unset: str) -> str:
    """Return the assembly with names of arrays and tables for findings."""
    written = assembly.with_array_names(written, plain, calls)
    written += assembly.text_in_assembly("softcuda_unset", unset)
    return written + assembly.text_in_assembly("softcuda_slices", slices.table(calls, kernels_own_path))


def for_the_driver(written: str, source: Path) -> str:
    """Return the assembly with a GPU's results and with gaps and tables for the driver. Raises BadKernel."""
    lines, too_much = assembly.with_red_zones(arithmetic.with_results_of_a_gpu(written).split("\n"))
    if too_much:
        raise BadKernel(f"{source}: error: {too_much}")
    return "\n".join(lines) + "\n"


def flags_of(folder: Path, source: Path, unit: Path, options: dict) -> list[str]:
    """Return the flags of g++ for a source that is compiled in a folder as ``unit``, with or without checks."""
    folders = [option for option in options["pass"] if option.startswith("-I")]
    includes = [option for option in folders if not headers.is_torchs(Path(option[2:]))]
    beside = source.parent.resolve()  # where nvcc looks first
    return [*FLAGS, f"-iquote{beside}", *includes, f"-I{SOFTCUDA}/include",
             f"-I{beside}", f"-idirafter{folder}/{headers.FOLDER}", f"-fdebug-prefix-map={Path.cwd()}=.",
             f"-fdebug-prefix-map={unit}={source}",
             f"-fdebug-prefix-map={SOFTCUDA}=/softcuda", f"-fmacro-prefix-map={Path.cwd()}/="]  # fmt: skip


def preprocessed_text(
    unit: Path,
    preprocessed: Path,
    written: str,
    source: Path,
    options: dict,
    flags: list[str],
    host: host_code.Host,
    brought: list[str],
) -> str:
    """Return a source behind the dialect and the headers of device functions that it needs, preprocessed.

    ``brought``: further headers of the standard library's and of Thrust's. Raises BadKernel.
    """

    def preprocess(*more: str) -> str:
        gxx("-E", *flags, *more, str(unit), "-o", str(preprocessed))
        return preprocessed.read_text(errors="surrogateescape")

    stand_ins = headers.StandIns(folder=unit.parent / headers.FOLDER, flags=options["pass"], missing=host.missing)
    chosen = headers.chosen(written)
    while True:
        unit.write_text(translation_unit(written, source, options, chosen, brought), errors="surrogateescape")
        text = stand_ins.preprocessed(preprocess, written, source)
        more = headers.chosen(headers.SYSTEMS.sub("", text[text.index(f'# 1 "{source}"') :]))
        if set(more) <= set(chosen):
            return text
        chosen = more  # the source's own headers name more than itself


SHARED_VALUE = re.compile(r"\b__shared__\b(?:[^;{}()=]|\([^()]*\))*?(?<![<>!=])=(?!=)")


def one_address(unit: reader.Unit) -> str:
    """Return the arrays that begin at one address, "a (kernel.cu:1), b (kernel.cu:2)": dynamic shared memory's."""
    found = unit.find(kernels.DYNAMIC)
    names = {name: unit.line_of(each.start()) for each in found for name in kernels.WITHOUT_SIZE.findall(each[0])}
    places = (f"{name} ({os.path.basename(file)}:{line})" for name, (file, line) in names.items())
    return ", ".join(places) if len(names) > 1 else ""


def unit_of(preprocessed: str, source: Path) -> reader.Unit:
    """Return what Clang reads of a source in its preprocessed text, which is the same in every folder."""
    own, here = re.escape(f"{Path.cwd()}/"), re.escape(f"{SOFTCUDA}/")
    text = re.sub(rf'^(# \d+ ")(?!{here}){own}', r"\1", preprocessed, flags=re.MULTILINE)
    text = kernels.without_pragmas_of_macros(text)
    begin, end = text.index(f'# 1 "{source}"'), text.index(f'# 1 "{IMAGE}"')
    return reader.Unit(text, begin, end, f"{SOFTCUDA}/", reader.known_headers(FLAGS))


def plain_cpp(unit: reader.Unit, source: Path, checked: bool, host: host_code.Host) -> str:
    """Return C++ that g++ compiles."""
    if match := next(unit.find(SHARED_VALUE), None):
        place = unit.place_of(match.start())
        raise BadKernel(f"{place}: error: initializer not allowed for __shared__ variable: let a thread set it")
    edits = [*host_code.without_host_code(unit, host), *kernels.edits(unit, checked), *ptx.edits(unit)]
    edits += restricted.edits(unit) if checked else []
    plain = host_code.written(unit, edits)
    plain = kernels.with_default_constructors(plain, unit.begin, host.constructors)
    return kernels.plain_words(plain, unit.begin)


def kernels_own_path(path: str) -> str:
    """Return a path as the debug information has it; "" for headers of softcuda and of the system."""
    absolute = os.path.abspath(path)
    if absolute.startswith((f"{SOFTCUDA}/", "/usr/")) or path.startswith("<"):
        return ""
    return absolute.removeprefix(f"{Path.cwd()}/") if os.path.isabs(path) else path.removeprefix("./")


def limit_seconds() -> None:
    """Let this compiler and g++ use MOST_SECONDS of a core's time each; more raises BadKernel."""

    def stop(*_: object) -> None:
        raise BadKernel(TOO_LONG)

    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    signal.signal(signal.SIGXCPU, stop)
    seconds = MOST_SECONDS if most == resource.RLIM_INFINITY else min(MOST_SECONDS, most)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))


def gxx(*arguments: str, seconds: int = MOST_SECONDS) -> None:
    """Call g++, which may take so many seconds of a core's time. Raises BadKernel, TooLong where it takes more."""

    def limit() -> None:
        most = seconds if soft == resource.RLIM_INFINITY else min(seconds, soft)
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    done = subprocess.run(
        ["g++", *arguments], capture_output=True, errors="surrogateescape", check=False, preexec_fn=limit
    )
    if "CPU time limit exceeded" in done.stderr:
        raise TooLong(TOO_LONG)
    if done.returncode:
        raise BadKernel(done.stderr)
    if "-v" in arguments:
        sys.stderr.write(done.stderr)


def checks() -> list[str]:
    version = subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    major = int(version.split(".")[0])
    return CHECKS + ([VOLATILE] if major >= 11 else []) + (assembly.FILL_FLAGS if major >= 12 else [])


def macro(option: str) -> str:
    """Return the line that does what -D or -U does; "" for another option."""
    name, given, value = option[2:].partition("=")
    if option.startswith("-D"):
        return f"#define {name} {value if given else 1}"
    return f"#undef {name}" if option.startswith("-U") else ""


def translation_unit(text: str, source: Path, options: dict, chosen: list[str], brought: list[str]) -> str:
    """Return the kernel's file, its lines unmoved, between the dialect and the tables that the driver reads.

    ``chosen``: headers of device functions, behind the dialect; ``brought``: others, behind them. Macros of the
    command line are defined behind all of them, where they cannot change them. Softcuda's headers are named by their
    whole path: the kernel's own may have the same names. Only the dialect sees a macro of the build with checks:
    the text of the kernel is the same in both builds.
    """
    folder = f"{SOFTCUDA}/include/" if headers.NAMEABLE else ""
    own = (f'#include "{folder}{name}"' for name in ("softcuda/cuda_dialect.h", *chosen))
    includes = "\n".join([*own, *(f"#include <{name}>" for name in brought)])
    if options["checks"]:
        includes = f"#define SOFTCUDA_CHECKED 1\n{includes}\n#undef SOFTCUDA_CHECKED"
    macros = "\n".join(filter(None, map(macro, options["pass"])))
    return f"""{includes}
{macros}
#line 1 "{source}"
{text}
#line 1 "{IMAGE}"
extern "C" {{
extern SOFTCUDA_HIDDEN const softcuda::KernelEntry softcuda_kernels[], softcuda_kernels_end[];
extern SOFTCUDA_HIDDEN softcuda::Context softcuda_context;
extern SOFTCUDA_HIDDEN const softcuda::Symbol softcuda_symbols[], softcuda_symbols_end[];
extern SOFTCUDA_HIDDEN char softcuda_shared_first[], softcuda_shared_last[];
extern SOFTCUDA_HIDDEN const char softcuda_slices[], softcuda_unset[], softcuda_one_address[];
extern SOFTCUDA_HIDDEN softcuda::Undefined softcuda_undefined;
__attribute__((visibility("default"), used)) extern const softcuda::Image softcuda_image = {{
    softcuda::image_version, {int(options["checks"])},
    &softcuda_context, softcuda_kernels, softcuda_kernels_end,
    softcuda_symbols, softcuda_symbols_end, softcuda_shared_first, softcuda_shared_last, softcuda_dynamic_area,
    {"softcuda_slices" if options["checks"] else '""'}, &softcuda_undefined,
    {"softcuda_unset" if options["checks"] else '""'}, softcuda_one_address, {int(options["ftz"])}
}};
}}
"""
