"""Triton's entry point: an adapter from its four calls to a role, and nothing more."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

# The stub puts this file's folder on the path; the package of the same tree must be found, installed or not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from python_llm import roles

__all__ = ["TritonPythonModel"]


def _model_json(arguments: dict[str, str]) -> Path:
    return Path(arguments["model_repository"]) / arguments["model_version"] / "model.json"


class TritonPythonModel:
    """One Triton model of the backend ``python_llm``; its ``model.json`` says which role it plays."""

    def initialize(self, arguments: dict[str, str]) -> None:
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
        try:
            self._role = roles.load(_model_json(arguments))
        except Exception as error:
            raise pb_utils.TritonModelException(f"{arguments['model_name']}: {error}") from error

    def execute(self, requests: Sequence[Any]) -> Any:
        return self._role.execute(requests)

    def finalize(self) -> None:
        self._role.finalize()
