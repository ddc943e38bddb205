"""What the unit ring of python_llm shares: a tiny checkpoint, its tokenizer, and a steady hypothesis profile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer as RawTokenizer

from python_llm.tokenizer import Tokenizer
from sentencepiece_tokenizer import make_sentencepiece_tokenizer
from tiny_checkpoint import make_tiny_checkpoint

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=_QUIET)
settings.register_profile("search", deadline=None, max_examples=1000, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="session")
def byte_level(checkpoint: Path) -> RawTokenizer:
    return RawTokenizer.from_file(str(checkpoint / "tokenizer.json"))


@pytest.fixture(scope="session")
def sentencepiece() -> RawTokenizer:
    return make_sentencepiece_tokenizer()


@pytest.fixture(scope="session")
def tokenizer(checkpoint: Path) -> Tokenizer:
    return Tokenizer.load(checkpoint)
