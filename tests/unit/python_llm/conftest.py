"""What the unit ring of python_llm shares: a tiny checkpoint and its tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer as RawTokenizer

from python_llm.tokenizer import Tokenizer
from sentencepiece_tokenizer import make_sentencepiece_tokenizer
from tiny_checkpoint import make_tiny_checkpoint


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
