"""The tiny checkpoint compiled to OpenVINO IR, once."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_xml(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stateful IR in fp32."""
    folder = tmp_path_factory.mktemp("ir")
    with warnings.catch_warnings():  # the exporter's own
        warnings.simplefilter("ignore")
        from optimum.exporters.openvino import main_export

        main_export(str(checkpoint), folder, task="text-generation-with-past", stateful=True)
    return folder / "openvino_model.xml"
