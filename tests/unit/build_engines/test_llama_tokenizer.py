"""The imported tokenizer gives llama.cpp's own ids."""

from __future__ import annotations

import json
import os
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from build_engines.gguf import read_metadata
from build_engines.gguf_tokenizer import PRE_TOKENIZERS, read_vocabulary, write_tokenizer
from build_engines.wheel import SMOLLM2
from llama_cpp import llama_ids
from tests.unit.build_engines.tiny_gguf import write_gguf
from tiny_checkpoint import SPECIAL_TOKENS, make_tiny_checkpoint

_CACHE = Path(os.environ.get("TRITON_LLM_CACHE", Path.home() / ".cache" / "triton-llm"))
DEFAULT_MODEL = _CACHE / "models" / Path(SMOLLM2.member).name

PIECES = (
    "The ferry left the small harbour at six, and the gulls followed it.",
    "def mean(values):\n    total = 0.0\n\tif x != y: return {'a': [1, 2]}\n",
    "我们在河边等船\uff0c水位很高。",
    "東京タワーへ行きました。",
    "서울의 봄은 짧다",
    "👩‍👩‍👧 🏳️‍🌈 😀😀",
    "1 12 123 1234 3.14159 007 1,000,000",
    " leading",
    "  two  spaces   three",
    "trailing  ",
    "U+2581 \u2581 stays\u2581\u2581here",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "a<|endoftext|> b",
    "\n\n\n",
    "\t\t tabs \r\n",
    "L'été, j'AI vu l'Œuvre; it's WE'LL don't",
    "naïve café über Straße Ωμέγα Привет мир שלום مرحبا नमस्ते",
    "\u00a0nbsp\u2003em\u200bzero",
    "x" * 70,
    "!!!??? ... --- ___ ###",
    "½ ² Ⅷ ٣٤٥ १२",
    "\x00\x7f",
)


def texts(count: int) -> list[str]:
    """Every piece, and random joins of their parts; all in composed form, which llama.cpp never changes."""
    draw = random.Random(7)
    joined = [
        "".join(piece[draw.randrange(len(piece)) :][: draw.randrange(1, 12)] for piece in draw.choices(PIECES, k=5))
        for _ in range(count)
    ]
    found = [unicodedata.normalize("NFC", text) for text in (*PIECES, *joined)]
    return [text for text in found if text and "\x00" not in text]


def _says(**changes: Any) -> dict[str, Any]:
    return {f"tokenizer.ggml.{key}": value for key, value in changes.items()}


def _words(vocabulary: dict[str, Any]) -> list[str]:
    return [token for token in vocabulary["tokenizer.ggml.tokens"] if token.isascii() and token.isalpha()]


def _differences(gguf: Path, folder: Path, asked: list[str]) -> list[tuple[str, list[int], list[int]]]:
    write_tokenizer(read_vocabulary(read_metadata(gguf), str(gguf)), folder)
    own = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pairs = [(text, own.encode(text).ids, ids) for text, ids in zip(asked, llama_ids(gguf, asked), strict=True)]
    return [pair for pair in pairs if pair[1] != pair[2]]


SIZE = 1500
_PLAIN = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}


@pytest.fixture(scope="module")
def greedy() -> dict[str, Any]:
    """A vocabulary whose merges reach over every border a pre-tokenizer may set: a wrong border shows."""
    from tokenizers import models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(300), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    assert len(tokens) == SIZE
    # One word that no merge makes: only who takes whole words first finds it.
    word = next(token for token in tokens if token.isascii() and token.isalpha() and len(token) > 3)
    merges = [pair for pair in model["merges"] if "".join(pair) != word and word not in pair]
    return {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.token_type": [3] * len(SPECIAL_TOKENS) + [1] * (SIZE - len(SPECIAL_TOKENS)),
        "tokenizer.ggml.add_bos_token": None,  # what the pre-tokenizer says by itself
    }


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roomy") / "checkpoint"
    return make_tiny_checkpoint(folder, padded_vocab_size=SIZE, hidden_size=32, layers=1)


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_byte_level_vocabularies(roomy: Path, greedy: dict[str, Any], tmp_path: Path, pre: str) -> None:
    gguf = write_gguf(roomy, tmp_path / "tiny.gguf", **greedy, **_says(pre=pre))
    assert _differences(gguf, tmp_path, [*texts(150), *_words(greedy)]) == []


def test_another_pre_tokenizer_would_be_seen(roomy: Path, greedy: dict[str, Any], tmp_path: Path) -> None:
    """The comparison has teeth: each kind's ids differ from every other's on these texts."""
    kinds = {}
    for pre in ("gpt-2", "smollm", "llama-bpe", "dbrx", "stablelm2"):
        write_tokenizer(read_vocabulary({**_PLAIN, **greedy, "tokenizer.ggml.pre": pre}, "test"), tmp_path)
        own = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        kinds[pre] = [own.encode(text, add_special_tokens=False).ids for text in (*texts(150), *_words(greedy))]
    assert all(a == b or kinds[a] != kinds[b] for a in kinds for b in kinds)


@pytest.mark.parametrize("says", [True, False])
def test_bos_is_as_the_file_says(tiny: Path, tmp_path: Path, says: bool) -> None:
    gguf = write_gguf(tiny, tmp_path / "tiny.gguf", **_says(pre="llama-bpe", add_bos_token=says))
    assert _differences(gguf, tmp_path, texts(0)) == []
    assert llama_ids(gguf, ["The"])[0][0] == 1 or not says


@pytest.mark.parametrize("prefix", [True, False])
def test_a_sentencepiece_vocabulary(tiny: Path, tmp_path: Path, prefix: bool) -> None:
    changes = {**_sentence_piece(512), **_says(add_space_prefix=prefix)}
    gguf = write_gguf(tiny, tmp_path / "tiny.gguf", **changes)
    assert _differences(gguf, tmp_path, texts(100)) == []


def _sentence_piece(size: int) -> dict[str, Any]:
    special = ["<unk>", "<|im_start|>", "<|im_end|>"]
    raw = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = [*"\u2581ehtfrylsmaoub dinoIW".replace(" ", ""), "é", "河", "的", "東"]
    words = [
        "he",
        "the",
        "\u2581the",
        "er",
        "fer",
        "\u2581\u2581",
        "\u2581a",
        "an",
        "and",
        "\u2581and",
        "ll",
        "ss",
        "sm",
    ]
    pieces = list(dict.fromkeys([*letters, *words]))
    unused = [f"<unused{number}>" for number in range(size - len(special) - len(raw) - len(pieces))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.tokens": [*special, *raw, *pieces, *unused],
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(rank) for rank in range(len(pieces))] + [-1e4] * len(unused),
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces) + [5] * len(unused),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": None,
        "tokenizer.chat_template": None,
    }


@pytest.mark.skipif(
    not DEFAULT_MODEL.is_file(), reason=f"{DEFAULT_MODEL.name} is not in the cache: `make build-engine` fetches it"
)
def test_the_default_model(tmp_path: Path) -> None:
    assert _differences(DEFAULT_MODEL, tmp_path, texts(400)) == []
