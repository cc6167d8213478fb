"""Finds and makes the instances of templates that host code launches, so that an image has those of nvcc's.

Arguments of a template that are not written out are deduced from the types of what the call passes, as far as these are
declared in the same function. Clients of NVRTC ask for the assembler's names of C++ expressions such as
``matmul<float, 16>``: each expression's address is taken behind the kernel's own text, which makes the instance, and
g++ writes its name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from items import PAIRS, Item, Source, functions, head, is_marked, line_of

TYPES = re.compile(
    r"bool|char|short|int|long|signed|unsigned|float|double|void|const|true|false|sizeof|size_t|u?int\d+_t|cuda\w+_t"
    r"|(?:__)?half2?|(?:__)?nv_bfloat16(?:2|_?)|(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]"
    r"|Half|BFloat16"  # PyTorch's
)
BETWEEN = {",", "::", "*", "<", ">", "+", "-", "/", "%", "(", ")"}
QUALIFIERS = {"const", "volatile", "__restrict__", "__restrict", "restrict", "static", "register", "typename"}
NO_TYPES = {"return", "delete", "new", "goto", "else", "case", "using", "throw", "auto"}
LITERALS = {r"\d+": "int", r"\d+[uU]": "unsigned", r"[\d.]+(?:e-?\d+)?[fF]": "float", r"\d*\.\d*(?:e-?\d+)?": "double"}
# Functions of tensors' classes that give a pointer to elements of the type that they are called with.
POINTERS = {"data", "data_ptr", "const_data_ptr", "mutable_data_ptr", "mutable_data", "ptr"}
DEPTH = 4  # how many templates call one another at most, down to a launch
LAUNCH = ["<", "<", "<"]
Tokens = list[str]
Binding = Mapping[str, Tokens]


def launched(
    source: Source, host: Sequence[Item], item: Item, templates: Mapping[str, Sequence[Item]], known: set[str]
) -> Iterator[tuple[str, Item]]:
    """Yield instances that a host function launches, as "k<float, 16>", of arguments that are ``known`` outside of it.

    With each the host function behind which it can be made: its arguments may be declared behind this one.
    ``host``: all host functions; where the function is itself a template, they say for which arguments it is called.
    ``templates``: kernels that are templates, those of a name together.
    """
    tokens = source.tokens
    uses = [place for place in range(item.body, item.last) if tokens[place] in templates and tokens[place + 1] == "<"]
    callers = list(bindings(source, host, item, known)) if uses else []
    if uses and not callers:  # nobody is seen to call this template: what does not depend on its parameters is known
        parameters = split(tokens[item.first + 2 : closing(tokens, item.first + 1)])
        known = known - {name for part in parameters for name in (part[-1], parameter_name(part))}
        callers = [({}, item)]
    for binding, caller in callers:
        for place in uses:
            values = local_names(source, item, known, binding, place)
            written = tokens[place + 1 : place + 4] != LAUNCH
            end = closing(tokens, place + 1) + 1 if written else place + 1
            given = [substituted(part, values) for part in split(tokens[place + 2 : end - 1])] if written else []
            passed = call(source, end) if tokens[end : end + 3] == LAUNCH else None
            if kernel := overload(source, templates[tokens[place]], len(given), passed):
                given = deduced(source, kernel, given, passed or [], (item, values)) or given
            arguments = [token for part in given for token in (",", *part)][1:]
            if arguments and is_known(arguments, known):
                behind = caller if caller.first > item.first else item
                yield f"{with_scopes(tokens, place)}<{' '.join(arguments)}>", behind


def overload(source: Source, kernels: Sequence[Item], given: int, passed: Sequence[Tokens] | None) -> Item | None:
    """Return the template that takes as many arguments as are passed, and no fewer than those in <>."""
    tokens = source.tokens
    for kernel in kernels:
        parameters = split(tokens[kernel.first + 2 : closing(tokens, kernel.first + 1)])
        declared = split(tokens[kernel.brackets + 1 : source.partner[kernel.brackets]])
        needed = sum("=" not in part for part in declared)
        if given <= len(parameters) and (passed is None or needed <= len(passed) <= len(declared)):
            return kernel
    return None


def bindings(
    source: Source, host: Sequence[Item], item: Item, known: set[str], depth: int = 0
) -> Iterator[tuple[Binding, Item]]:
    """Yield the arguments that a function template is called with or instantiated for, and where; none for a function.

    Who calls it may be a template, too, and so on, to a certain ``depth``.
    """
    tokens, first, name = source.tokens, item.first, item.names[0][-1]
    if tokens[first : first + 2] != ["template", "<"] or tokens[first + 2] == ">":
        yield {}, item
        return
    for caller in host if depth < DEPTH else ():
        named = any(each[-1] == name for each in caller.names[:1])
        instantiated = named and tokens[caller.first] == "template" and not caller.body
        inside = range(caller.first if instantiated else caller.body, caller.last if instantiated or caller.body else 0)
        calls = [place for place in inside if tokens[place] == name and tokens[place + 1] in ("<", "(")]
        outer = [({}, caller)] if instantiated else bindings(source, host, caller, known, depth + 1)
        for around, behind in outer if calls else ():
            for place in calls:
                if (binding := arguments_at(source, item, place, instantiated, (caller, around), known)) is not None:
                    yield binding, behind if behind.first > caller.first else caller


def arguments_at(
    source: Source, template: Item, place: int, instantiated: bool, caller: tuple[Item, Binding], known: set[str]
) -> Binding | None:
    """Return the arguments of a function template by its use at ``place``; None if some are not known."""
    tokens, first, behind = source.tokens, template.first, place + 1
    parameters = split(tokens[first + 2 : closing(tokens, first + 1)])
    values = local_names(source, caller[0], known, caller[1], place)
    given: list[Tokens] = []
    if tokens[behind] == "<":
        end = closing(tokens, behind)
        given, behind = [substituted(part, values) for part in split(tokens[behind + 1 : end])], end + 1
    arguments: list[Tokens] | None = given
    if tokens[behind] == "(" and len(given) < len(parameters):
        passed = split(tokens[behind + 1 : source.partner[behind]])
        arguments = of_declaration(source, template, given, passed) if instantiated else None
        arguments = arguments or deduced(source, template, given, passed, (caller[0], values))
    # Those that are not given have a default.
    defaults = [part[part.index("=") + 1 :] for part in parameters[len(arguments or ()) :] if "=" in part]
    arguments = [*(arguments or ()), *defaults]
    complete = len(arguments) == len(parameters) and all(is_known(part, known) for part in arguments)
    return dict(zip(map(parameter_name, parameters), arguments, strict=True)) if complete else None


def of_declaration(
    source: Source, template: Item, first_ones: list[Tokens], written: list[Tokens]
) -> list[Tokens] | None:
    """Return the arguments of a template that is instantiated without naming them all, by its parameters."""
    tokens, first = source.tokens, template.first
    names = [parameter_name(part) for part in split(tokens[first + 2 : closing(tokens, first + 1)])]
    declared = split(tokens[template.brackets + 1 : source.partner[template.brackets]])
    bound: dict[str, Tokens] = dict(zip(names, first_ones, strict=False))
    for part, given in zip(declared, written, strict=False):
        groups: list[str] = []
        for token in without_name(part):
            once = token in names and f"(?P<{token}>" not in "".join(groups)
            groups.append(f"(?P<{token}>.+)" if once else f"(?P={token})" if token in names else re.escape(token))
        match = re.fullmatch(" ".join(groups), " ".join(without_name(given)))
        bound = {**({name: text.split() for name, text in match.groupdict().items()} if match else {}), **bound}
    return [bound[name] for name in names] if bound.keys() == set(names) else None


def without_name(parameter: Tokens) -> Tokens:
    """Return the type of a function's parameter, without its name and its default."""
    whole = parameter[: parameter.index("=")] if "=" in parameter else parameter
    tokens = [token for token in whole if token not in QUALIFIERS]
    named = len(tokens) > 1 and tokens[-1].isidentifier() and tokens[-2] != "::" and not TYPES.fullmatch(tokens[-1])
    return tokens[:-1] if named else tokens


def call(source: Source, place: int) -> list[Tokens]:
    """Return the arguments of the launch whose <<< begins at ``place``."""
    tokens = source.tokens
    while tokens[place : place + 3] != [">", ">", ">"] and tokens[place] not in (";", ""):
        place = source.partner[place] + 1 if tokens[place] in PAIRS else place + 1
    return split(tokens[place + 4 : source.partner[place + 3]]) if tokens[place + 3] == "(" else []


def deduced(
    source: Source, template: Item, given: list[Tokens], passed: list[Tokens], caller: tuple[Item, Binding]
) -> list[Tokens] | None:
    """Return all arguments of a template, some ``given`` and the others by the types of what is passed.

    Those with a default are left out at the end. None where some do not follow.
    """
    tokens, first = source.tokens, template.first
    parameters = split(tokens[first + 2 : closing(tokens, first + 1)])
    names = [parameter_name(part) for part in parameters]
    bound = dict(zip(names, given, strict=False))
    declared = split(tokens[template.brackets + 1 : source.partner[template.brackets]])
    for part, argument in zip(declared, passed, strict=False):
        pattern = [token for token in part if token not in QUALIFIERS]
        base, stars = pattern[0], pattern.count("*")
        simple = all(token == "*" or token.isidentifier() for token in pattern)
        got = type_of(source, argument, *caller) if simple and base in names and base not in bound else None
        if got and got[len(got) - stars :] == ["*"] * stars:
            bound[base] = got[: len(got) - stars]
    arguments = [bound.get(name) for name in names]
    while arguments and arguments[-1] is None and "=" in parameters[len(arguments) - 1]:
        arguments.pop()
    return None if None in arguments else [part for part in arguments if part is not None]


def type_of(source: Source, argument: Tokens, item: Item, binding: Binding) -> Tokens | None:
    """Return the type of an argument: of a number, a cast, or a variable that the function declares; else None."""
    if len(argument) == 1:
        for pattern, type_name in LITERALS.items():
            if re.fullmatch(pattern, argument[0]):
                return [type_name]
    if argument[0] in ("static_cast", "reinterpret_cast"):
        written = argument[2 : closing(argument, 1)]
    elif argument[0] == "(" and ")" in argument:
        written = argument[1 : argument.index(")")]
    elif argument[-3:] == [">", "(", ")"] and POINTERS.intersection(argument):
        first = max(place for place, token in enumerate(argument) if token in POINTERS)
        written = [*argument[first + 2 : -3], "*"] if argument[first + 1] == "<" else []
    elif argument[0].isidentifier() and (len(argument) == 1 or argument[1] in ("+", "-")):
        written = declared_type(source, argument[0], item) or []
    else:
        return None
    return substituted([token for token in written if token not in QUALIFIERS], binding) or None


def declared_type(source: Source, name: str, item: Item) -> Tokens | None:
    """Return the type of a variable or parameter of a function, with its stars."""
    tokens = source.tokens
    for place in range(item.first, item.last):
        if tokens[place] == name and tokens[place + 1] in (",", ";", "=", ")", "{", "("):
            first, stops = place, ("{", "}", ";", "(", ")")
            if item.brackets < place < source.partner[item.brackets]:
                stops = (*stops, ",")
            while tokens[first - 1] not in stops:
                first -= 1
            words = [token for token in tokens[first:place] if token not in QUALIFIERS]
            plain = words[: len(words) - next((i for i, word in enumerate(reversed(words)) if word != "*"), 0)]
            cut = next((i for i, word in enumerate(words) if word in ("*", "&", ",", "=")), len(words))
            # Of several variables in one declaration, the type stands before the first, each other behind a comma.
            base = words[: cut - (words[cut : cut + 1] in ([","], ["="]))]
            if base and NO_TYPES.isdisjoint(base) and (plain == base or plain[-1] == ","):
                return base + words[len(plain) :]
    return None


def substituted(tokens: Tokens, values: Binding) -> Tokens:
    return [part for token in tokens for part in values.get(token, [token])]


def parameter_name(part: Tokens) -> str:
    """Return the name of a template's parameter, as of "typename T = float"."""
    return part[part.index("=") - 1] if "=" in part else part[-1]


def local_names(source: Source, item: Item, known: set[str], binding: Binding, use: int) -> dict[str, Tokens]:
    """Return a template's arguments, and the types and constants that a function has named before a use.

    Constants as far as they are computed of these, numbers and the ``known``. What is in blocks that have ended before
    counts no more: macros that choose among types name each of them so, in a block of its own.
    """
    tokens, partner = source.tokens, source.partner
    values = dict(binding)
    place, listed = item.body, 0  # where the next of several constants in one declaration would stand
    while item.body and place < use:
        after, is_type = tokens[place + 1], tokens[place - 1] == "using"
        constant = place == listed or not {"const", "constexpr"}.isdisjoint(tokens[place - 4 : place])
        if tokens[place].isidentifier() and ((after == "=" and is_type) or (after in ("=", "{") and constant)):
            end = partner[place + 1] if after == "{" else end_of_value(source, place + 2, ";" if is_type else ",;")
            value = substituted(tokens[place + 2 : end], values)
            if value and is_known(value, known):
                values[tokens[place]] = value if is_type else ["(", *value, ")"]
            listed, place = end + 1 if tokens[end] == "," else 0, max(place + 1, min(end, use))
        else:
            ended = tokens[place] in PAIRS and partner[place] < use
            place = partner[place] + 1 if ended else place + 1
    return values


def end_of_value(source: Source, place: int, ends: str) -> int:
    """Return where the value that begins at a token ends; a comma in <> is taken for one that ends it."""
    while source.tokens[place] and source.tokens[place] not in ends:
        place = source.partner.get(place, place) + 1
    return place


def is_known(arguments: Tokens, known: set[str]) -> bool:
    """Return whether all names are known; a name before :: is a namespace or class of a known name."""
    return all(
        token in BETWEEN or token in known or token[:1].isdigit() or TYPES.fullmatch(token) or following == "::"
        for token, following in itertools.zip_longest(arguments, arguments[1:])
    )


def closing(tokens: Tokens, place: int) -> int:
    """Return the angle bracket that closes the one at ``place``; the end if there is none."""
    depth = 1
    while depth and place < len(tokens) - 1:
        place += 1
        depth += (tokens[place] == "<") - (tokens[place] == ">")
    return place


def split(tokens: Tokens) -> list[Tokens]:
    """Split at commas that are in no brackets."""
    parts: list[Tokens] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "(<[{") - (token in ")>]}")
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def with_scopes(tokens: Tokens, place: int) -> str:
    """Return the name at ``place`` with what is written before it, as outer::kernel."""
    first = place
    while tokens[first - 1] == "::":
        first -= 2 if tokens[first - 2].isidentifier() else 1
    return " ".join(tokens[first : place + 1])


INSTANCE = "softcuda-instance-"  # what the file of an instance is called, with its number


def bare(instance: str) -> str:
    """Return the name of an instance without namespaces and spaces, which g++ writes as it likes."""
    return re.sub(r"\w+::", "", "".join(instance.split()))


def launches(
    source: Source, declared: list[Item], hosts: list[Item], remaining: list[Item], refused: set[str]
) -> dict[Item, list[str]]:
    """Return the instances that host functions launch, by the function in whose place they are to be made.

    For functions of a class that is behind it. ``refused``: instances that are none.
    """
    known = {name[-1] for item in remaining for name in item.names}
    templates: dict[str, list[Item]] = {}
    for item in remaining:
        template = item.kind == "function" and source.tokens[item.first : item.first + 2] == ["template", "<"]
        if template and "__global__" in head(source, item):
            templates.setdefault(item.names[0][-1], []).append(item)
    owners = {member: item for item in declared for member in host_members(source, item)} if templates else {}
    hosts = [*hosts, *owners]
    instances: dict[Item, list[str]] = {}
    done: set[str] = set()
    for item in hosts:
        for instance, behind in launched(source, hosts, item, templates, known) if item.body else ():
            if instance not in done and bare(instance) not in refused:
                instances.setdefault(owners.get(behind, behind), []).append(instance)
                done.add(instance)
    return instances


def made_at(source: Source, token: int, numbered: dict[int, str], declaration: str) -> str:
    """Return C++ that makes instances where a token is: each in a file of its own, which errors name.

    ``declaration``: what makes one of them, with its ``number``.
    """
    if not numbered:
        return ""
    file, line = line_of(source, token)
    variables = (
        f'\n# 1 "{INSTANCE}{number}"\n' + declaration.format(number=number, instance=instance)
        for number, instance in numbered.items()
    )
    return f'{"".join(variables)}\n# {line} "{file}"\n'


def host_members(source: Source, item: Item) -> Iterator[Item]:
    """Yield the functions of a class that have a body and are not the device's."""
    if item.kind == "class" and item.body and "enum" not in head(source, item):
        for member in functions(source, [item]):
            if not is_marked(source, member):
                yield member


VARIABLE = "softcuda_name_expression"


def name_expressions(expressions: Sequence[str]) -> str:
    """Return C++ that takes the address of each expression; errors of g++ are at a line of that name."""
    lines = []
    for number, expression in enumerate(expressions):
        written = expression.strip().removeprefix("&")
        place = f"the name expression {expression}".replace("\\", "\\\\").replace('"', '\\"')
        declared = f"__attribute__((used)) extern const void* const {VARIABLE}{number}"
        lines.append(f'# 1 "{place}"\nextern "C" {{ {declared} = (const void*)&{written}; }}\n')
    return "".join(lines)


def lowered_names(assembly: str, expressions: Sequence[str]) -> str:
    """Return the name of each expression, one a line, as the assembly of name_expressions() has it."""
    labels = dict(re.findall(rf"^{VARIABLE}(\d+):\n\s*\.quad\s+(\S+)", assembly, re.MULTILINE))
    return "".join(f"{labels.get(str(number), '')}\n" for number in range(len(expressions)))
