"""What is installed here, as the distributions themselves say it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["installed"]


def installed(package: str) -> str:
    """The version of a distribution; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
