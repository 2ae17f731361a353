"""The rules that a reader relies on, checked on the syntax trees of the product, the benchmarks and the laboratory.

Each rule is a function from a module to its faults. ``test_rule`` runs every rule over every module, and
``test_rule_can_fail`` shows each rule a small bad module, because a check that cannot fail checks nothing.
The layers below are the picture at the top of ``docs/architecture.md``; a test holds the two together.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"

#: Bottom to top. An import points down; the names on one line do not see each other.
LAYERS = (
    ("private_directory",),
    ("kernels", "errors"),
    ("model",),
    ("curves", "geometry"),
    ("algebra",),
    ("index",),
    ("node", "engine", "reduction", "files"),
    ("routing", "overlay"),
    ("runtime",),
    ("spark", "demo"),
    ("plots",),
    ("web",),
    ("cli",),
    ("tamis_bench",),
    ("tamis_lab",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
LEVEL["__main__"] = len(LAYERS)  # `python -m tamis` only calls the command line

#: These get the time and send messages through their arguments and results only.
SANS_IO = {"routing", "overlay", "node", "index"}
WORLDLY = {"asyncio", "socket", "time", "random", "threading"}
#: Which places alone may import what.
OWNERS = {
    "numba": ("kernels/",),
    "llvmlite": ("kernels/",),
    "pyspark": ("spark/", "tamis_bench/spark/", "tamis_lab/tasks.py"),
    "matplotlib": ("plots/", "tamis_bench/plots/", "tamis_lab/plots/"),
    "opentelemetry": ("runtime/traces/exporting.py",),
}
#: What ``tamis serve`` imports only when a comparison or traces are requested, or never.
NOT_IN_A_BROKER = (
    "tamis.overlay",
    "tamis.demo",
    "tamis.runtime.simulation.simulator",
    "tamis.runtime.simulation.brokers",
    "tamis.runtime.simulation.network",
    "tamis.runtime.simulation.peer_network",
    "tamis.spark",
    "tamis.plots",
    "tamis_bench",
    "tamis_lab",
    "opentelemetry",
)
UNSAFE_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load"}
#: The module that checks WKT and WKB, and the readers of shapely that no other may call.
READER_OF_GEOMETRY = "model/geometry_text.py"
GEOS_READERS = re.compile(r"shapely\.(from_(wkt|wkb|geojson)|wkt|wkb|io|geometry\.shape)\b")
#: What only the driver knows; web reads `tamis.runtime.broker.view`.
BEHIND_THE_DRIVER = {"edge", "node", "store", "_store", "connections", "committer"}
VAGUE_NAMES = {"utils", "util", "misc", "common", "helpers"}

MODULE_LINES, FUNCTION_LINES, KERNEL_LINES, KERNEL_PARAMETERS = 500, 30, 60, 8
FOLDER_FILES, CLASS_METHODS, CLASS_FIELDS = 14, 20, 12

#: Folders above the limit, with their size: it may only fall, and an entry that is no longer needed must go.
LARGE_FOLDERS: dict[str, int] = {}
#: Classes above the limits, with their methods and fields: the same.
LARGE_CLASSES = {
    "engine/engine.py::Engine": (36, 10),
    "engine/ids.py::Ids": (22, 7),
    "overlay/peer.py::PeerCore": (24, 18),
    "overlay/seat.py::Seat": (18, 15),
    "routing/edge/core.py::EdgeCore": (28, 12),
    "runtime/broker/view.py::BrokerView": (25, 4),
    "runtime/broker/driver.py::Driver": (28, 12),
    "runtime/simulation/network.py::Network": (22, 9),
    "runtime/simulation/peer_network.py::PeerNetwork": (23, 11),
    "runtime/simulation/brokers.py::BrokerSimulator": (28, 7),
    "runtime/simulation/statistics.py::LinkStatistics": (1, 16),
    "runtime/simulation/statistics.py::NetworkStatistics": (1, 15),
    "spark/pipelines/report.py::Report": (2, 14),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fault:
    """One broken rule at one line."""

    line: int
    message: str


@dataclass(frozen=True)
class Module:
    """A source file and the questions that the rules ask about it."""

    path: str  # as documents write it: "index/registry.py" below src/tamis, "tamis_lab/errata.py" below src
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.path)

    @property
    def parts(self) -> list[str]:
        return self.path.removesuffix(".py").removesuffix("/__init__").split("/")

    @property
    def layer(self) -> str:
        """The name in the picture: the first folder, or the file itself; ``__init__`` is the product's façade."""
        return self.parts[0]

    @property
    def house(self) -> str:
        """The distribution that the module belongs to."""
        return self.layer if self.layer in {"tamis_bench", "tamis_lab"} else "tamis"

    @cached_property
    def nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        """The nodes of the tree by their kind: a dozen rules look for a few kinds each."""
        nodes: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            nodes.setdefault(type(node), []).append(node)
        return nodes

    def walk(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for kind in kinds for node in self.nodes.get(kind, ()))

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in self.walk(ast.FunctionDef, ast.AsyncFunctionDef) if isinstance(node, Function))

    @property
    def imports(self) -> Iterator[tuple[int, str]]:
        """Yield (line, full name) of everything imported, wherever the import stands."""
        inside = [] if self.layer.startswith("tamis_") else ["tamis"]
        package = [*inside, *self.path.split("/")[:-1]]
        for node in self.walk(ast.Import, ast.ImportFrom):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                start = package[: len(package) - node.level + 1] if node.level else []
                base = [*start, *([node.module] if node.module else [])]
                yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)

    @cached_property
    def code_lines(self) -> set[int]:
        """The lines that hold code: not blank, not only a comment."""
        silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        return {line for t in tokens if t.type not in silent for line in range(t.start[0], t.end[0] + 1)}

    def body_length(self, function: Function) -> int:
        """Count the lines of code in a function's body, without its docstring."""
        body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
        if not body:
            return 0
        return len(self.code_lines & set(range(body[0].lineno, (function.end_lineno or 0) + 1)))


def dotted(node: ast.AST) -> str:
    """Write ``a.b.c`` for a name or attribute, and for a call the name of what is called."""
    if isinstance(node, ast.Call):
        return dotted(node.func)
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def is_kernel(function: Function) -> bool:
    return any(dotted(decorator).split(".")[-1] in {"njit", "jit"} for decorator in function.decorator_list)


def every_module_has_a_layer(module: Module) -> Iterator[Fault]:
    if module.layer not in {*LEVEL, "__init__"}:
        yield Fault(1, f"{module.layer} stands in no layer of docs/architecture.md")


def imports_point_down(module: Module) -> Iterator[Fault]:
    if module.layer == "__init__":  # the façade names everything, lazily: test_importing_tamis_is_light
        return
    here = LEVEL.get(module.layer, 0)
    for line, name in module.imports:
        first, _, rest = name.partition(".")
        if first != "tamis" and not first.startswith("tamis_"):
            continue
        target = rest.split(".")[0] if first == "tamis" else first
        if target in LEVEL and target != module.layer and LEVEL[target] >= here:
            yield Fault(line, f"{module.layer} imports {name}, which does not lie below it")
        elif target not in LEVEL and target != "__version__" and here < LEVEL["cli"]:
            yield Fault(line, f"{module.layer} imports {name} from the façade; name the module that defines it")


def cores_know_no_clock_and_no_socket(module: Module) -> Iterator[Fault]:
    if module.layer in SANS_IO:
        for line, name in module.imports:
            if name.split(".")[0] in WORLDLY:
                yield Fault(line, f"{module.layer} imports {name}: time, chance and messages come as arguments")


def heavy_libraries_have_one_owner(module: Module) -> Iterator[Fault]:
    for line, name in module.imports:
        owners = OWNERS.get(name.split(".")[0])
        if owners and not module.path.startswith(owners):
            yield Fault(line, f"{name} is imported by {module.path}; only {', '.join(owners)} may")


def nothing_runs_code_from_data(module: Module) -> Iterator[Fault]:
    for line, name in module.imports:
        if name.split(".")[0] in UNSAFE_MODULES:
            yield Fault(line, f"{name} can run code that comes with the data")
    for node in module.walk(ast.Call):
        assert isinstance(node, ast.Call)
        allows = any(k.arg == "allow_pickle" and getattr(k.value, "value", True) is not False for k in node.keywords)
        if dotted(node) in UNSAFE_CALLS or allows:
            yield Fault(node.lineno, f"{dotted(node)} can run code that comes with the data")


def geometry_is_read_in_one_place(module: Module) -> Iterator[Fault]:
    """The readers of GEOS end the process for values that are nested too deep, so one module checks values first."""
    if module.house != "tamis" or module.path == READER_OF_GEOMETRY:
        return
    names = [(node.lineno, dotted(node)) for node in module.walk(ast.Attribute) if isinstance(node, ast.Attribute)]
    for line, name in sorted({*names, *module.imports}):
        if GEOS_READERS.match(name):
            yield Fault(line, f"{name} reads unchecked geometry: call {READER_OF_GEOMETRY}")


def modules_are_short(module: Module) -> Iterator[Fault]:
    length = len(module.source.splitlines())
    if length > MODULE_LINES:
        yield Fault(length, f"{length} lines; a module has at most {MODULE_LINES}")


def functions_are_short(module: Module) -> Iterator[Fault]:
    for function in module.functions:
        limit = KERNEL_LINES if module.layer == "kernels" else FUNCTION_LINES
        if (function.end_lineno or 0) - function.lineno <= limit:
            continue  # short with its comments: they need not be told from code
        length = module.body_length(function)
        if length > limit:
            yield Fault(function.lineno, f"{function.name} has {length} lines of code; at most {limit}")


def kernels_have_few_parameters(module: Module) -> Iterator[Fault]:
    for function in filter(is_kernel, module.functions):
        arguments = function.args
        count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
        if count > KERNEL_PARAMETERS:
            yield Fault(function.lineno, f"{function.name} takes {count} parameters; at most {KERNEL_PARAMETERS}")


def methods_and_fields(definition: ast.ClassDef) -> tuple[int, int]:
    """Count a class's methods, and the fields that it declares or assigns to ``self``."""
    fields = {dotted(node.target) for node in definition.body if isinstance(node, ast.AnnAssign)}
    for node in ast.walk(definition):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        fields |= {t.attr for t in targets if isinstance(t, ast.Attribute) and dotted(t.value) == "self"}
    return sum(isinstance(node, Function) for node in definition.body), len(fields)


def classes_do_one_thing(module: Module) -> Iterator[Fault]:
    for node in module.walk(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        methods, fields = methods_and_fields(node)
        limits = LARGE_CLASSES.get(f"{module.path}::{node.name}", (0, 0))
        if methods > max(limits[0], CLASS_METHODS) or fields > max(limits[1], CLASS_FIELDS):
            yield Fault(
                node.lineno,
                f"{node.name} has {methods} methods and {fields} fields; at most {CLASS_METHODS} and {CLASS_FIELDS}",
            )


def is_inner(function: Function) -> bool:
    """Whether a kernel is optimised only as a part of the kernels that call it (`kernels/compile.py`)."""
    names = {dotted(decorator) for decorator in function.decorator_list}
    return "inline_kernel" in names or ("hot_kernel" in names and function.name.startswith("_"))


def inner_kernels_are_called_by_kernels(module: Module) -> Iterator[Fault]:
    inner = {function.name for function in module.functions if is_inner(function)}
    imported = {
        name.asname or name.name: name.name
        for node in module.walk(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tamis.kernels.")
        for name in node.names
    }
    inner |= {local for local, name in imported.items() if name in inner_kernels()}
    for function in module.functions:
        if not any(dotted(decorator).endswith("kernel") for decorator in function.decorator_list):
            for call in ast.walk(function) if inner else ():
                if isinstance(call, ast.Call) and dotted(call.func) in inner:
                    yield Fault(
                        call.lineno, f"{dotted(call.func)} is not optimised by itself: kernels alone may call it"
                    )


def names_say_what_is_inside(module: Module) -> Iterator[Fault]:
    for part in module.parts:
        if part in VAGUE_NAMES:
            yield Fault(1, f"{part} says nothing about what is inside")


def a_class_name_means_one_thing(module: Module) -> Iterator[Fault]:
    """A reader who meets a class in a traceback or a search should not have to ask which one it is."""
    for node in public_classes(module):
        for other in homes_of_classes().get((module.house, node.name), ()):
            if other != module.path:
                yield Fault(
                    node.lineno, f"a class {node.name} is also defined in {other}: rename one, or merge the two"
                )


def public_things_have_docstrings(module: Module) -> Iterator[Fault]:
    if any(part.startswith("_") and not part.startswith("__") for part in module.parts):
        return
    if ast.get_docstring(module.tree) is None:
        yield Fault(1, "the module has no docstring")
    waiting: list[ast.AST] = list(module.tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If | ast.Try):  # definitions may stand under `if TYPE_CHECKING` or in a `try`
            waiting += [*ast.iter_child_nodes(node)]
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        exempt = {"overload", "setter", "deleter", "override", "register"}
        if ast.get_docstring(node) is None and not exempt & {dotted(d).split(".")[-1] for d in node.decorator_list}:
            yield Fault(node.lineno, f"{node.name} is public and has no docstring")
        if isinstance(node, ast.ClassDef):
            waiting += node.body


def functions_say_what_they_return(module: Module) -> Iterator[Fault]:
    for function in module.functions:
        if function.returns is None:
            yield Fault(function.lineno, f"{function.name} has no return annotation")


def web_reads_a_view(module: Module) -> Iterator[Fault]:
    """Endpoints read a broker through `BrokerView`; what is behind the driver may change without them."""
    if module.layer != "web":
        return
    for node in module.walk(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        owner = dotted(node.value).split(".")[-1]
        if (owner in {"driver", "_driver"} and node.attr in BEHIND_THE_DRIVER) or (
            owner == "machine" and node.attr == "node"
        ):
            yield Fault(node.lineno, f"{owner}.{node.attr} reaches through the driver: read its view")


RULES: tuple[Callable[[Module], Iterator[Fault]], ...] = (
    every_module_has_a_layer,
    imports_point_down,
    cores_know_no_clock_and_no_socket,
    heavy_libraries_have_one_owner,
    nothing_runs_code_from_data,
    geometry_is_read_in_one_place,
    modules_are_short,
    functions_are_short,
    kernels_have_few_parameters,
    classes_do_one_thing,
    inner_kernels_are_called_by_kernels,
    names_say_what_is_inside,
    web_reads_a_view,
    a_class_name_means_one_thing,
    public_things_have_docstrings,
    functions_say_what_they_return,
)


@functools.cache
def modules() -> list[Module]:
    return [
        Module(path.relative_to(SOURCE).as_posix().removeprefix("tamis/"), path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    ]


@functools.cache
def inner_kernels() -> frozenset[str]:
    kernels = (module for module in modules() if module.layer == "kernels")
    return frozenset(function.name for module in kernels for function in module.functions if is_inner(function))


def public_classes(module: Module) -> Iterator[ast.ClassDef]:
    """Yield the classes at the top level of a module, those of ``if`` and ``try`` among them."""
    waiting: list[ast.AST] = list(module.tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If | ast.Try):
            waiting += ast.iter_child_nodes(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node


@functools.cache
def homes_of_classes() -> Mapping[tuple[str, str], list[str]]:
    """Return the modules that define a public class, by distribution and name."""
    homes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for module in modules():
        for name in dict.fromkeys(node.name for node in public_classes(module)):
            homes[module.house, name].append(module.path)
    return homes


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Callable[[Module], Iterator[Fault]]) -> None:
    faults = [
        f"{module.path}:{fault.line}: {fault.message}  [{rule.__name__}]"
        for module in modules()
        for fault in rule(module)
    ]
    assert not faults, "\n" + "\n".join(faults)


def lines(count: int, text: str = "    x = 1\n") -> str:
    return text * count


BAD = [
    (every_module_has_a_layer, "cellar.py", "", 1),
    (imports_point_down, "model/schema.py", "from tamis.index import protocols\n", 1),
    (imports_point_down, "model/schema.py", "\nfrom tamis import index\n", 2),
    (imports_point_down, "model/language/parse.py", "from ...engine import Engine\n", 1),
    (imports_point_down, "curves/zcurve.py", "import tamis.geometry.relations\n", 1),  # a sibling
    (imports_point_down, "kernels/boxes/sparse.py", "import tamis.errors\n", 1),
    (imports_point_down, "index/linear_scan.py", "def f() -> None:\n    from tamis.engine import Engine\n", 2),
    (imports_point_down, "routing/core/broker.py", "from tamis import Engine\n", 1),
    (imports_point_down, "engine.py", "import tamis\n", 1),
    (imports_point_down, "cli/main.py", "import tamis_lab.commands.app\n", 1),
    (imports_point_down, "web/app.py", "def f() -> None:\n    from tamis_bench import rows\n", 2),
    (imports_point_down, "tamis_bench/rows.py", "from tamis_lab.errata import ERRATA\n", 1),
    (cores_know_no_clock_and_no_socket, "routing/core/broker.py", "import asyncio\n", 1),
    (cores_know_no_clock_and_no_socket, "index/packed/boxes/segment.py", "from time import monotonic\n", 1),
    (cores_know_no_clock_and_no_socket, "overlay/peer.py", "x = 1\nimport threading\n", 2),
    (heavy_libraries_have_one_owner, "index/rtree.py", "from numba import njit\n", 1),
    (heavy_libraries_have_one_owner, "engine.py", "import pyspark.sql\n", 1),
    (heavy_libraries_have_one_owner, "tamis_lab/report.py", "import matplotlib.pyplot as plt\n", 1),
    (heavy_libraries_have_one_owner, "tamis_bench/rows.py", "from pyspark.sql import DataFrame\n", 1),
    (nothing_runs_code_from_data, "runtime/wire.py", "import pickle\n", 1),
    (nothing_runs_code_from_data, "cli/main.py", "\nx = eval('1')\n", 2),
    (nothing_runs_code_from_data, "lab/base.py", "import yaml\ny = yaml.load(f)\n", 2),
    (nothing_runs_code_from_data, "index/packed/boxes/segment.py", "a = np.load(p, allow_pickle=True)\n", 1),
    (geometry_is_read_in_one_place, "spark/joins/joining.py", "x = 1\ny = [shapely.from_wkb][0](x)\n", 2),
    (geometry_is_read_in_one_place, "plots/maps.py", "from shapely import from_wkt\n", 1),
    (geometry_is_read_in_one_place, "model/shapes.py", "import shapely.wkb\n", 1),
    (geometry_is_read_in_one_place, "model/geojson.py", "y = shapely.geometry.shape(x)\n", 1),
    (modules_are_short, "engine.py", lines(501, "x = 1\n"), 501),
    (functions_are_short, "engine.py", "def f() -> None:\n" + lines(31), 1),
    (functions_are_short, "engine.py", 'def f() -> None:\n    """One.\n\n    Two."""\n' + lines(31), 1),
    (functions_are_short, "kernels/boxes/sparse.py", "def f() -> None:\n" + lines(61), 1),
    (
        inner_kernels_are_called_by_kernels,
        "kernels/boxes/tree.py",
        "@hot_kernel\ndef _f(a) -> int: ...\n\ndef g(a) -> int:\n    return _f(a)\n",
        5,
    ),
    (
        inner_kernels_are_called_by_kernels,
        "index/rtree.py",
        "from tamis.kernels.polygons.polygon import narrow\n\ndef g(a) -> int:\n    return narrow(a)\n",
        4,
    ),
    (
        kernels_have_few_parameters,
        "kernels/boxes/tree.py",
        "@njit(**KERNEL)\ndef f(a, b, c, d, e, f, g, h, i) -> int: ...\n",
        2,
    ),
    (classes_do_one_thing, "engine.py", "class C:\n" + lines(21, "    def f(self): ...\n"), 1),
    (
        classes_do_one_thing,
        "engine.py",
        "class C:\n    def f(self):\n" + "".join(f"        self.x{n} = 1\n" for n in range(13)),
        1,
    ),
    (names_say_what_is_inside, "index/utils.py", "", 1),
    (
        web_reads_a_view,
        "web/endpoints/events.py",
        "def f(server) -> int:\n    return len(server.driver.edge.asked)\n",
        2,
    ),
    (web_reads_a_view, "web/server.py", "x = driver.machine.node.ends\n", 1),
    (names_say_what_is_inside, "common/boxes.py", "", 1),
    (a_class_name_means_one_thing, "routing/queue.py", "\nclass Engine: ...\n", 2),
    (a_class_name_means_one_thing, "routing/queue.py", "try:\n    class Engine: ...\nexcept ImportError: ...\n", 2),
    (public_things_have_docstrings, "engine.py", "x = 1\n", 1),
    (public_things_have_docstrings, "engine.py", '"""Module."""\ndef f() -> None: ...\n', 2),
    (
        public_things_have_docstrings,
        "engine.py",
        '"""Module."""\nclass C:\n    """C."""\n    def m(self) -> int: ...\n',
        4,
    ),
    (functions_say_what_they_return, "engine.py", "def f():\n    def g() -> int: ...\n", 1),
    (functions_say_what_they_return, "engine.py", "def f() -> int:\n    async def g(): ...\n", 2),
]


@pytest.mark.parametrize(("rule", "path", "source", "line"), BAD)
def test_rule_can_fail(rule: Callable[[Module], Iterator[Fault]], path: str, source: str, line: int) -> None:
    assert [fault.line for fault in rule(Module(path, source))] == [line]


def test_every_rule_is_shown_something_bad() -> None:
    assert {rule for rule, *_ in BAD} == set(RULES)


GOOD = [
    (
        imports_point_down,
        "index/rtree.py",
        "from tamis.kernels import boxes\nfrom tamis.index.protocols import EventMatcher\n",
    ),
    (imports_point_down, "index/rtree.py", "from . import protocols\nfrom ..errors import TamisError\n"),
    (imports_point_down, "runtime/server.py", "from tamis import __version__, engine\n"),
    (imports_point_down, "cli/main.py", "import tamis\nfrom tamis import Engine\nimport tamisier\n"),
    (imports_point_down, "__init__.py", "from tamis.engine import Engine\n"),
    (
        nothing_runs_code_from_data,
        "spark/matching/match.py",
        "a = np.load(p, allow_pickle=False)\nb = re.compile('x')\n",
    ),
    (modules_are_short, "engine.py", lines(500, "x = 1\n")),
    (
        functions_are_short,
        "engine.py",
        'def f() -> None:\n    """Doc.\n\n    More."""\n' + lines(30, "    x = 1\n    # y\n\n"),
    ),
    (functions_are_short, "engine.py", 'def f() -> None:\n    """Doc only."""\n'),
    (functions_are_short, "kernels/boxes/sparse.py", "def f() -> None:\n" + lines(60)),
    (kernels_have_few_parameters, "kernels/boxes/tree.py", "@njit\ndef f(a, b, c, d, e, f, g, h) -> int: ...\n"),
    (functions_are_short, "kernels/boxes.py", "def f() -> None:\n" + lines(60)),
    (
        inner_kernels_are_called_by_kernels,
        "kernels/boxes/tree.py",
        "@hot_kernel\ndef _f(a) -> int: ...\n\n@hot_kernel\ndef g(a) -> int:\n    return _f(a)\n",
    ),
    (kernels_have_few_parameters, "kernels/boxes/tree.py", "@njit\ndef f(a, b, c, d, e, f, g, h) -> int: ...\n"),
    (
        public_things_have_docstrings,
        "engine.py",
        '"""M."""\ndef _f() -> None: ...\nclass _C:\n    def m(self) -> int: ...\n',
    ),
    (geometry_is_read_in_one_place, "model/geometry_text.py", "y = shapely.from_wkb(x)\n"),
    (geometry_is_read_in_one_place, "plots/maps.py", "y = shapely.Polygon(x).wkb\n"),
    (public_things_have_docstrings, "index/_order.py", "def f() -> None: ...\n"),
    (
        a_class_name_means_one_thing,
        "routing/queue.py",
        "class _Engine: ...\nclass Waiting:\n    class Engine: ...\n",
    ),
    (a_class_name_means_one_thing, "engine/engine.py", "class Engine: ...\n"),
    (a_class_name_means_one_thing, "tamis_lab/engines.py", "class Engine: ...\n"),
]


@pytest.mark.parametrize(("rule", "path", "source"), GOOD)
def test_rule_lets_good_code_pass(rule: Callable[[Module], Iterator[Fault]], path: str, source: str) -> None:
    assert list(rule(Module(path, source))) == []


def folder_sizes() -> Counter[str]:
    return Counter(module.path.rpartition("/")[0] for module in modules())


def test_a_folder_is_a_chapter() -> None:
    large = {folder: size for folder, size in folder_sizes().items() if size > FOLDER_FILES}
    assert large.keys() == LARGE_FOLDERS.keys(), f"a folder has at most {FOLDER_FILES} modules"
    assert not {folder: size for folder, size in large.items() if size > LARGE_FOLDERS[folder]}


def test_every_folder_is_a_package() -> None:
    paths = {module.path for module in modules()}
    assert not [folder for folder in folder_sizes() if folder and f"{folder}/__init__.py" not in paths]


def test_no_class_is_excused_without_need() -> None:
    sizes = {
        f"{module.path}::{node.name}": methods_and_fields(node)
        for module in modules()
        for node in module.walk(ast.ClassDef)
        if isinstance(node, ast.ClassDef)
    }
    for name, (methods, fields) in LARGE_CLASSES.items():
        assert sizes.get(name) == (methods, fields), f"{name} is {sizes.get(name)} now: correct or remove its entry"
        assert methods > CLASS_METHODS or fields > CLASS_FIELDS


def layers_of_picture(text: str) -> tuple[tuple[str, ...], ...]:
    """Read the first fenced block: a line is names between dots, two blanks, a description; bars join lines."""
    block = re.search(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block, "docs/architecture.md has no fenced picture"
    named = (re.split(r"\s{2,}", line.strip())[0] for line in block[1].splitlines() if line.strip(" │|"))
    return tuple(tuple(name.strip() for name in line.split("·")) for line in named)[::-1]


def test_picture_shows_these_layers() -> None:
    assert layers_of_picture((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")) == LAYERS


def test_picture_is_read_bottom_to_top() -> None:
    picture = (
        "# Title\n```\n   cli · web      what people touch · see\n     │\n  kernels   Numba\n```\n```\nmore\n```\n"
    )
    assert layers_of_picture(picture) == (("kernels",), ("cli", "web"))


def imported_by(statement: str) -> set[str]:
    """Return the names of all modules that a new process has after a statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(shown.stdout.split())


def test_importing_tamis_is_light() -> None:
    assert not imported_by("import tamis") & OWNERS.keys(), "`import tamis` must compile nothing and need no JVM"


def test_a_broker_imports_no_simulator_no_overlay_and_no_data_sets() -> None:
    imported = imported_by("import tamis.cli.main, tamis.cli.broker.serve, tamis.web.serving")
    assert not [name for name in imported if name.startswith(NOT_IN_A_BROKER)]
    assert "tamis.web.app" in imported
