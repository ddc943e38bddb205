"""The tokenizer of a GGUF file, from the file's own metadata.

transformers makes one too, and it is not the model's: it puts BOS before plain text whatever the file says, and
its decoder turns U+2581 into a space for byte-level vocabularies. So tokenizer.json is built here, and a
pre-tokenizer that is not known for sure is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_engines.errors import CheckpointError

__all__ = ["PRE_TOKENIZERS", "PreTokenizer", "Vocabulary", "read_vocabulary", "write_tokenizer"]

_CONTROL, _USER_DEFINED = 3, 4  # of tokenizer.ggml.token_type
# Tokens that end a turn, where the chat template writes them.
END_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|endofturn|>", "</s>")


@dataclass(frozen=True)
class PreTokenizer:
    """How text is cut before merging, for one value of tokenizer.ggml.pre."""

    pattern: str = ""  # empty: GPT-2's own
    single_digits: bool = False
    nfc: bool = False
    ignore_merges: bool = False
    adds_bos: bool = False  # where the file does not say


_LLAMA3 = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

_GPT2, _DIGITS = PreTokenizer(), PreTokenizer(single_digits=True)
_LLAMA_BPE = PreTokenizer(_LLAMA3, ignore_merges=True, adds_bos=True)

# Each is held to llama.cpp's own ids by a test.
PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais"), _GPT2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _LLAMA_BPE),
    **dict.fromkeys(("dbrx", "smaug-bpe"), PreTokenizer(_LLAMA3)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2"), PreTokenizer(_QWEN2)),
}
PRE_TOKENIZERS = {**PRE_TOKENIZERS, "qwen2": PreTokenizer(_QWEN2, nfc=True)}


@dataclass(frozen=True)
class Vocabulary:
    """What a GGUF file says about its tokenizer."""

    model: str  # gpt2 (byte-level BPE) or llama (SentencePiece BPE)
    pre: PreTokenizer
    tokens: Sequence[str]
    types: Sequence[int]
    merges: Sequence[str]
    scores: Sequence[float]
    adds_bos: bool
    adds_eos: bool
    adds_space_prefix: bool
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    pad_id: int | None
    end_ids: tuple[int, ...]
    chat_template: str | None


def read_vocabulary(metadata: Mapping[str, Any], subject: str) -> Vocabulary:
    """Read the tokenizer keys of a GGUF file.

    Raises:
        CheckpointError: a vocabulary of a kind, or a pre-tokenizer, that is not known for sure.
    """
    tokens = metadata.get("tokenizer.ggml.tokens") or []
    model = str(metadata.get("tokenizer.ggml.model", "none"))
    if model not in ("gpt2", "llama") or not tokens:
        raise CheckpointError(
            f"model '{subject}': tokenizer kind '{model}' cannot be imported; known kinds: gpt2, llama: give the "
            "Hugging Face checkpoint instead."
        )
    if len(set(tokens)) != len(tokens):
        raise CheckpointError(f"model '{subject}': two tokens have the same text; the file is damaged: fetch it again.")
    pre = _pre_tokenizer(model, str(metadata.get("tokenizer.ggml.pre", "default")), subject)
    eos = metadata.get("tokenizer.ggml.eos_token_id")
    template = metadata.get("tokenizer.chat_template")
    return Vocabulary(
        model=model,
        pre=pre,
        tokens=tokens,
        types=metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens),
        merges=metadata.get("tokenizer.ggml.merges") or [],
        scores=metadata.get("tokenizer.ggml.scores") or [],
        adds_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", pre.adds_bos)),
        adds_eos=bool(metadata.get("tokenizer.ggml.add_eos_token", False)),
        adds_space_prefix=bool(metadata.get("tokenizer.ggml.add_space_prefix", model == "llama")),
        bos_id=metadata.get("tokenizer.ggml.bos_token_id"),
        eos_id=eos,
        unk_id=metadata.get("tokenizer.ggml.unknown_token_id"),
        pad_id=metadata.get("tokenizer.ggml.padding_token_id"),
        end_ids=_end_ids(metadata, tokens, template),
        chat_template=template,
    )


def _pre_tokenizer(model: str, name: str, subject: str) -> PreTokenizer:
    if model == "llama":
        return PreTokenizer(adds_bos=True)
    if name not in PRE_TOKENIZERS:
        raise CheckpointError(
            f"model '{subject}': pre-tokenizer '{name}' is not known here, and a guess would give wrong tokens; known: "
            f"{', '.join(PRE_TOKENIZERS)}: give the Hugging Face checkpoint instead."
        )
    return PRE_TOKENIZERS[name]


def _end_ids(metadata: Mapping[str, Any], tokens: Sequence[str], template: str | None) -> tuple[int, ...]:
    """The end tokens the metadata names, and those with which the chat template ends a turn."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    named = [metadata.get(f"tokenizer.ggml.{key}") for key in keys]
    written = [tokens.index(text) for text in END_OF_TURN if template and text in template and text in tokens]
    return tuple(dict.fromkeys(int(token) for token in [*named, *written] if token is not None))


def write_tokenizer(vocabulary: Vocabulary, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    tokenizer = _byte_level(vocabulary) if vocabulary.model == "gpt2" else _sentence_piece(vocabulary)
    _add_special_tokens(tokenizer, vocabulary)
    _add_template(tokenizer, vocabulary)
    tokenizer.save(str(folder / "tokenizer.json"))
    text = json.dumps(_tokenizer_config(vocabulary), indent=2, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, "utf-8")


def _byte_level(vocabulary: Vocabulary) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pre = vocabulary.pre
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    merges = [tuple(merge.split(" ", 1)) for merge in vocabulary.merges]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=pre.ignore_merges))
    steps: list[Any] = []
    if pre.single_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if pre.pattern:
        steps.append(pre_tokenizers.Split(Regex(pre.pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pre.pattern))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if pre.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_piece(vocabulary: Vocabulary) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers

    unknown = vocabulary.tokens[vocabulary.unk_id] if vocabulary.unk_id is not None else None
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    merges = _merges_by_score(vocabulary, ids)
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prepend = [normalizers.Prepend("\u2581")] if vocabulary.adds_space_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prepend, normalizers.Replace(" ", "\u2581")])
    strip = [decoders.Strip(" ", 1, 0)] if vocabulary.adds_space_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def _merges_by_score(vocabulary: Vocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours whose union scores best: every way to cut a piece, best piece first."""
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    for piece, score in zip(vocabulary.tokens, vocabulary.scores, strict=True):
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                merges.append((-score, ids[left], ids[right], (left, right)))
    return [pair for *_, pair in sorted(merges)]


def _add_special_tokens(tokenizer: Any, vocabulary: Vocabulary) -> None:
    from tokenizers import AddedToken

    for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True):
        if kind == _CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == _USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])


def _add_template(tokenizer: Any, vocabulary: Vocabulary) -> None:
    """BOS and EOS around plain text, where the file says so."""
    from tokenizers import processors

    bos = vocabulary.bos_id if vocabulary.adds_bos else None
    eos = vocabulary.eos_id if vocabulary.adds_eos else None
    around = [(vocabulary.tokens[index], index) for index in (bos, eos) if index is not None]
    if not around:
        return
    before = [vocabulary.tokens[bos]] if bos is not None else []
    after = [vocabulary.tokens[eos]] if eos is not None else []
    single = [*before, "$A", *after]
    pair = [*single, *(part + ":1" for part in [*before, "$B", *after])]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=around)


def _tokenizer_config(vocabulary: Vocabulary) -> dict[str, Any]:
    named = {
        "bos_token": vocabulary.bos_id,
        "eos_token": vocabulary.eos_id,
        "unk_token": vocabulary.unk_id,
        "pad_token": vocabulary.pad_id,
    }
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    config |= {key: vocabulary.tokens[index] for key, index in named.items() if index is not None}
    if vocabulary.chat_template:
        config["chat_template"] = vocabulary.chat_template
    return config
