from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from build_engines import workspace
from build_engines.errors import StorageError
from build_engines.workspace import PREFIX, publish, working_folder

HOLD = "import sys; from pathlib import Path; from build_engines.workspace import working_folder\n"
HOLD += "with working_folder(Path(sys.argv[1]), 'model') as work:\n"
HOLD += "    (work / 'half').write_text('half'); print('held', flush=True); sys.stdin.read()\n"


@contextmanager
def _another_build(engines: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(engines)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def _fails(engines: Path) -> None:
    with working_folder(engines, "model") as work:
        (work / "half").write_text("half")
        raise ZeroDivisionError


def test_a_working_folder_is_gone_afterwards_whatever_happens(engines: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _fails(engines)
    assert [path.name for path in engines.iterdir()] == [f"{PREFIX}lock"]


def test_a_second_build_of_the_name_is_refused_while_the_first_lives(engines: Path) -> None:
    with _another_build(engines) as process:
        with pytest.raises(StorageError, match=r"name 'model': another build of it is running"), _folder(engines):
            pass
        with working_folder(engines, "other"):
            assert (engines / f"{PREFIX}model" / "half").is_file()
        process.communicate("")


def test_a_dead_builds_folder_is_swept_by_the_next(engines: Path) -> None:
    with _another_build(engines) as process:
        process.kill()
        process.wait()
        assert (engines / f"{PREFIX}model" / "half").is_file()
        with working_folder(engines, "other"):
            assert not (engines / f"{PREFIX}model").exists()


@contextmanager
def _folder(engines: Path) -> Iterator[Path]:
    with working_folder(engines, "model") as work:
        yield work


@pytest.mark.parametrize("can_exchange", [True, False])
def test_publishing_replaces_whole_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:
        monkeypatch.setattr(workspace, "_exchange", lambda one, other: False)
    built, target = tmp_path / "built", tmp_path / "target"
    for folder, text in ((built, "new"), (target, "old")):
        folder.mkdir()
        (folder / text).write_text(text)
    publish(built, target)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert not (tmp_path / "built.old").exists()


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """No right to write: root has every right, so a root user steps down for the test."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


def test_no_write_permission_is_one_clear_error(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    request.getfixturevalue("unprivileged")
    with pytest.raises(StorageError) as caught, _folder(locked / "engines"):
        pass
    assert all(part in str(caught.value) for part in (str(locked), "Permission denied", "must be writable"))
    assert caught.value.exit_code == 2


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    (tmp_path / "engines").write_text("a file")
    with pytest.raises(StorageError, match="a file stands where a folder must be"), _folder(tmp_path / "engines"):
        pass
