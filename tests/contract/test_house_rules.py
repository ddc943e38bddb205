"""The house rules of the design, held by the source's own syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "python_llm": ROOT / "backends" / "python_llm",
    "build_engines": ROOT / "build_engines",
    "triton_launcher": ROOT / "triton_launcher",
    "triton_llm_client": ROOT / "clients" / "triton_llm_client",
    "openai_gateway": ROOT / "openai_gateway",
    "triton_doctor": ROOT / "triton_doctor",
    "triton_llm": ROOT / "triton_llm",
}

ENGINE_LIBRARIES = {
    "openvino",
    "openvino_genai",
    "tensorrt",
    "tensorrt_llm",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "onnx_graphsurgeon",
    "polygraphy",
    "llguidance",
    "nncf",
    "optimum",
    "llama_cpp",
}

TABLES = {"contract", "errors", "settings"}  # of python_llm: what every package may know
ARTIFACT = TABLES | {"records", "artifact", "gpus"}
FILES = ARTIFACT | {"control_access", "version_policy"}  # which one writes and the other reads

# package -> modules of python_llm it may import.
MAY_KNOW = {
    "build_engines": FILES | {"machine"},  # is there room for a second version?
    "triton_launcher": FILES | {"machine"},  # it checks artifacts, and sizes pools, before anything starts
    "triton_llm_client": TABLES,
    "openai_gateway": TABLES,
    "triton_doctor": FILES | {"machine"},
    "triton_llm": set[str](),
}

# file or folder -> what it may import beside that, by name.
EXCEPTIONS = {
    "build_engines/quality.py": {"engine"},
    "clients/triton_llm_client/bench/": {"engine"},
}

# package -> packages of ours below it. The CLI is the top of the house.
BELOW = {
    "python_llm": set[str](),
    "build_engines": {"python_llm"},
    "triton_llm_client": {"python_llm"},
    "triton_launcher": {"python_llm", "triton_llm_client"},
    "openai_gateway": {"python_llm", "triton_llm_client"},
    "triton_doctor": {"python_llm", "build_engines", "triton_launcher"},  # it holds the whole set-up together
    "triton_llm": {"build_engines", "triton_launcher", "triton_llm_client", "openai_gateway", "triton_doctor"},
}


def sources(package: str) -> list[Path]:
    return sorted(FOLDERS[package].rglob("*.py"))


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """(module, at import time?): plain imports, and the literal arguments of import_module."""
    tree = ast.parse(file.read_text("utf-8"))
    inside = {
        node
        for holder in ast.walk(tree)
        if isinstance(holder, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or _for_types_alone(holder)
        for node in ast.walk(holder)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node not in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(file)}: imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node not in inside) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((a.value, False) for a in node.args if isinstance(a, ast.Constant) and type(a.value) is str)


def _for_types_alone(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def allowed_of(file: Path, package: str) -> set[str]:
    extra = (modules for place, modules in EXCEPTIONS.items() if name_of(file).startswith(place))
    return MAY_KNOW[package].union(*extra)


@pytest.mark.parametrize("package", FOLDERS)
def test_arrows_go_down_only(package: str) -> None:
    for file in sources(package):
        for module, _ in imports(file):
            top = module.partition(".")[0]
            if top in FOLDERS and top != package:
                assert top in BELOW[package], f"{name_of(file)} imports {module}"


@pytest.mark.parametrize("package", MAY_KNOW)
def test_packages_know_only_the_tables_of_python_llm(package: str) -> None:
    for file in sources(package):
        for module, _ in imports(file):
            parts = module.split(".")
            if parts == ["python_llm"]:  # to know where it lies: the launcher assembles the backend from it
                assert package == "triton_launcher", f"{name_of(file)} imports python_llm whole"
            elif parts[0] == "python_llm":
                assert parts[1] in allowed_of(file, package), f"{name_of(file)} imports {module}"


def may_import_engine_libraries(file: Path) -> bool:
    folders = file.relative_to(ROOT).parts[:-1]
    return bool({"engines", "runners", "builders"} & set(folders))


@pytest.mark.parametrize("package", FOLDERS)
def test_engine_libraries_are_imported_only_where_engines_live(package: str) -> None:
    peers = "clients/triton_llm_client/bench/"  # it measures other engines beside ours
    for file in sources(package):
        for module, at_import in imports(file):
            if module.partition(".")[0] not in ENGINE_LIBRARIES or may_import_engine_libraries(file):
                continue
            is_peer = name_of(file).startswith(peers) and not at_import
            assert is_peer, f"{name_of(file)} imports {module}"


def test_builders_import_their_library_when_they_build() -> None:
    for file in (ROOT / "build_engines" / "builders").glob("*.py"):
        for module, at_import in imports(file):
            assert not (at_import and module.partition(".")[0] in ENGINE_LIBRARIES | {"torch", "transformers"})


@pytest.mark.parametrize("package", FOLDERS)
def test_tests_and_private_names_are_not_imported(package: str) -> None:
    for file in sources(package):
        for module, _ in imports(file):
            parts = module.split(".")
            assert parts[0] not in {"tests", "conftest", "pytest", "hypothesis"}, f"{name_of(file)} imports {module}"
            if parts[0] in FOLDERS and parts[0] != package:
                assert not any(part.startswith("_") for part in parts), f"{name_of(file)} imports {module}"


HEAVY = ("tokenizers", "openvino", "torch", "jinja2", "tritonclient", "transformers", "grpc", "triton_llm_client")


@pytest.mark.parametrize("module", ["", ".contract", ".errors", ".settings", ".records", ".artifact", ".engine"])
def test_the_tables_need_numpy_and_no_more(module: str) -> None:
    program = f"import sys, python_llm{module}; print(' '.join(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "python_llm" in loaded
    assert loaded.isdisjoint(HEAVY)
    outside = {name for name in loaded - sys.stdlib_module_names if not name.startswith(("_", "__editable__"))}
    assert outside <= {"python_llm", "numpy", "distutils", "setuptools", "sitecustomize"}


def test_every_verb_is_imported_only_when_it_runs() -> None:
    program = "import sys, triton_llm.cli; print(' '.join(sorted({m.partition('.')[0] for m in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()).isdisjoint({*HEAVY, "build_engines", "triton_launcher", "openai_gateway"})


WALL_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"}
# Where a date is meant, and not a duration: the wall clock may jump.
DATES = {
    "backends/python_llm/chat_template.py",
    "clients/triton_llm_client/batch_openai.py",
    "openai_gateway/answer_head.py",
    "openai_gateway/routes/models.py",
    "triton_launcher/log_lines.py",
}


@pytest.mark.parametrize("package", FOLDERS)
def test_no_deadline_goes_by_a_clock_that_may_jump(package: str) -> None:
    for file in sources(package):
        calls = (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call))
        for call in calls:
            name = ".".join(ast.unparse(call.func).split(".")[-2:])
            assert name not in WALL_CLOCK or name_of(file) in DATES, f"{name_of(file)}:{call.lineno} calls {name}"


def lines_of(*names: str) -> int:
    return sum(len((FOLDERS["python_llm"] / name).read_text("utf-8").splitlines()) for name in names)


def test_the_adapter_is_small() -> None:
    assert lines_of("model.py") <= 120


def test_the_engine_is_read_in_one_sitting() -> None:
    rooms = ("sequence", "block_pool", "scheduler", "engine", "step", "runner")
    assert lines_of(*(f"engines/paged/{room}.py" for room in rooms)) < 1000


def test_a_new_engine_is_named_in_one_row() -> None:
    """Each built-in engine and scorer stands in its factory table, and its module is there."""
    from python_llm import engine

    for place in [*engine._FACTORIES.values(), *engine._SCORERS.values()]:
        module, _, name = place.partition(":")
        file = ROOT / "backends" / Path(*module.split(".")).with_suffix(".py")
        functions = {n.name for n in ast.parse(file.read_text("utf-8")).body if isinstance(n, ast.FunctionDef)}
        assert name in functions
