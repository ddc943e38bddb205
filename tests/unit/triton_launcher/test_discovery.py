from __future__ import annotations

from pathlib import Path

import pytest

from triton_launcher.backend_dir import assemble
from triton_launcher.discovery import Triton, find_triton, python_version, read_flags
from triton_launcher.errors import LaunchRefused


def native(root: Path) -> Path:
    """A tree like that of Triton's container; returns the binary."""
    binary = executable(root / "bin/tritonserver")
    (root / "backends/python").mkdir(parents=True)
    (root / "backends/tensorrt").mkdir()
    return binary


def wheel(site_packages: Path, python: str) -> Path:
    """A tree like that of the wheel; returns the binary."""
    root = site_packages / "pytriton/tritonserver"
    (root / "backends/python").mkdir(parents=True)
    (root / "backends/python/libtriton_python.so").write_text("library")
    (root / "backends/python/triton_python_backend_utils.py").write_text("utils")
    stub = root / "python_backend_stubs" / python / "triton_python_backend_stub"
    stub.parent.mkdir(parents=True)
    stub.write_text("stub")
    return executable(root / "bin/tritonserver")


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def backend(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("")
    return folder


def test_the_environment_variable_goes_before_path_before_container_before_wheel(tmp_path: Path) -> None:
    named, on_path, container = (native(tmp_path / name) for name in ("named", "path", "container"))
    in_wheel = wheel(tmp_path / "site", python_version())
    environment = {"TRITONSERVER": str(named), "PATH": str(on_path.parent)}
    found = []
    for removed in (None, "TRITONSERVER", "PATH"):
        environment.pop(removed or "", None)
        found.append(find_triton(environment, container=tmp_path / "container", site_packages=tmp_path / "site").binary)
    found.append(find_triton({}, container=tmp_path / "none", site_packages=tmp_path / "site").binary)
    assert found == [named, on_path, container, in_wheel]


def test_a_variable_that_names_no_binary_is_an_error_and_no_silent_fallback(tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match="TRITONSERVER '/nowhere/tritonserver'"):
        find_triton({"TRITONSERVER": "/nowhere/tritonserver"}, container=native(tmp_path / "c").parents[1])


def test_the_variable_may_name_the_binary_of_a_wheel(tmp_path: Path) -> None:
    binary = wheel(tmp_path / "site", python_version())
    triton = find_triton({"TRITONSERVER": str(binary)})
    assert triton.libraries == tmp_path / "site/nvidia_pytriton.libs"


def test_no_triton_anywhere_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match=r"not found in .*install the extra 'serve'"):
        find_triton({}, container=tmp_path / "none", site_packages=tmp_path / "none")


def test_a_wheel_without_a_stub_for_this_python_names_the_pythons_it_has(tmp_path: Path) -> None:
    wheel(tmp_path / "site", "3.8")
    with pytest.raises(LaunchRefused, match=r"Python 3\.8"):
        find_triton({}, container=tmp_path / "none", site_packages=tmp_path / "site")


def test_a_native_triton_without_python_backend_is_refused(tmp_path: Path) -> None:
    binary = executable(tmp_path / "bin/tritonserver")
    with pytest.raises(LaunchRefused, match="no Python backend"):
        find_triton({"TRITONSERVER": str(binary)})


def test_flags_come_from_help(tmp_path: Path) -> None:
    words = "Server:\\n  --model-repository <string>\\n\\tSee --not-a-flag.\\n  --http-port <integer>\\n"
    triton = Triton(executable(tmp_path / "bin/tritonserver", f"#!/bin/sh\nprintf '{words}'"), tmp_path)
    assert read_flags(triton) == {"model-repository", "http-port"}


def test_a_binary_that_cannot_run_shows_its_last_words(tmp_path: Path) -> None:
    text = '#!/bin/sh\necho "error while loading shared libraries" >&2\nexit 127'
    triton = Triton(executable(tmp_path / "bin/tritonserver", text), tmp_path)
    with pytest.raises(LaunchRefused, match=r"127.*error while loading shared libraries"):
        read_flags(triton)


def test_backend_folder_of_a_wheel_holds_a_runnable_stub_and_leaves_the_wheel_alone(tmp_path: Path) -> None:
    wheel(tmp_path / "site", python_version())
    before = sorted(tmp_path.joinpath("site").rglob("*"))
    triton = find_triton({}, container=tmp_path / "none", site_packages=tmp_path / "site")
    made = assemble(triton, tmp_path / "run/backends", [backend(tmp_path / "python_llm")])
    assert sorted(path.name for path in (made / "python").iterdir()) == [
        "libtriton_python.so",
        "triton_python_backend_stub",
        "triton_python_backend_utils.py",
    ]
    assert (made / "python/triton_python_backend_stub").stat().st_mode & 0o111 == 0o111
    assert (made / "python_llm/model.py").is_file()
    assert sorted(tmp_path.joinpath("site").rglob("*")) == before


def test_backend_folder_of_a_native_triton_has_its_backends_and_ours(tmp_path: Path) -> None:
    triton = find_triton({"TRITONSERVER": str(native(tmp_path / "native"))})
    for _ in range(2):  # made anew each time
        made = assemble(triton, tmp_path / "run/backends", [backend(tmp_path / f"{_}/python_llm")])
    assert sorted(path.name for path in made.iterdir()) == ["python", "python_llm", "tensorrt"]


def test_a_backend_without_model_py_is_refused(tmp_path: Path) -> None:
    triton = find_triton({"TRITONSERVER": str(native(tmp_path / "native"))})
    with pytest.raises(LaunchRefused, match=r"no model\.py"):
        assemble(triton, tmp_path / "run/backends", [tmp_path])


def test_a_run_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    triton = find_triton({"TRITONSERVER": str(native(tmp_path / "native"))})
    (tmp_path / "run").write_text("a file, not a folder")
    with pytest.raises(LaunchRefused, match="--run-dir"):
        assemble(triton, tmp_path / "run/backends", [])
