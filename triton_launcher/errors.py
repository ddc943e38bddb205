"""What can go wrong before, and while, a Triton server is started.

CallerMistake (python_llm.errors)   exit code 2
 └── LaunchRefused                  nothing was started: a port, a folder, an option must change
StartFailure                        exit code 1: tritonserver ended or never became ready
"""

from __future__ import annotations

from python_llm.errors import CallerMistake

__all__ = ["LaunchRefused", "StartFailure"]


class LaunchRefused(CallerMistake):
    """Something the caller gave cannot work; nothing was started."""


class StartFailure(Exception):
    """tritonserver ended or did not become ready; the text holds the last lines of its log and the log's path."""

    exit_code = 1
