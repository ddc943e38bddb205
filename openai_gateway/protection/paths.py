"""Where a request goes, whatever a proxy put in front of it."""

from __future__ import annotations

from starlette.types import Scope

__all__ = ["path_of"]


def path_of(scope: Scope) -> str:
    """The path as the routes see it."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if not root or path.startswith(f"{root}/") else path
