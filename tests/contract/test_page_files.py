"""The chat page's files: each is used, each is found, each is in the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from openai_gateway.routes.page import STATIC

ROOT = Path(__file__).parents[2]
FILES = {file.relative_to(STATIC).as_posix() for file in STATIC.rglob("*") if file.is_file()}


def used() -> set[str]:
    """What index.html names, and what its modules import, one after the other."""
    page = (STATIC / "index.html").read_text("utf-8")
    found = {"index.html", *re.findall(r'(?:src|href)="static/([^"#]+)"', page)}
    to_read = [name for name in found if name.endswith(".js")]
    while to_read:
        module = to_read.pop()
        for name in re.findall(r'from "(\.[^"]+)"', (STATIC / module).read_text("utf-8")):
            place = (STATIC / module).parent.joinpath(name).resolve().relative_to(STATIC).as_posix()
            if place not in found:
                found.add(place)
                to_read.append(place)
    return found


def test_every_file_is_used_and_every_used_one_is_there() -> None:
    assert used() == FILES


def test_the_elements_that_modules_ask_for_are_in_the_page() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    for module in STATIC.rglob("*.js"):
        text = module.read_text("utf-8")
        asked = {
            *re.findall(r'byId\("([^"]+)"\)', text),
            *(f"icon-{name}" for name in re.findall(r'\bicon\("(\w+)"', text)),
        }
        assert asked <= ids, module.name


def test_nothing_is_inline_or_from_elsewhere() -> None:
    """The page's policy would refuse it; and it works offline."""
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)
    for file in STATIC.rglob("*"):
        if file.suffix in (".html", ".css", ".js"):
            addresses = re.findall(r"""["'(](?:https?:)?//[^"')\s]+""", file.read_text("utf-8"))
            assert [a for a in addresses if "www.w3.org/2000/svg" not in a] == [], file.name


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "openai_gateway", tmp_path / "openai_gateway", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("backends", "clients"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", tmp_path, tmp_path], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {f"openai_gateway/static/{name}" for name in FILES} <= inside
