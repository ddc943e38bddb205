"""EngineSpec: every build knob with its default and its bounds, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from build_engines.drift import DriftBounds
from build_engines.errors import SpecError
from build_engines.model_config import ROLES_OF_A_MODEL
from build_engines.quality_bounds import BOUNDS, QualityBounds
from build_engines.spec_gpu import GROUPED, check_gpu_knobs
from python_llm.artifact import Limits
from python_llm.contract import role_model

__all__ = [
    "DEFAULT_MODEL",
    "GROUP_SIZES",
    "INT4_RESTS",
    "QUANTISATIONS",
    "ROLES",
    "EngineSpec",
    "check_folder_name",
    "check_name",
    "default_name",
]

DEFAULT_MODEL = "smollm2"

# The words a caller may say. What each means is the builder's own table (`Builder.formats`).
QUANTISATIONS = (
    "none",
    "fp16",
    "int8",
    "int4",
    "fp8",
    "int8_sq",
    "int8_wo",
    "int4_wo",
    "int4_awq",
    "w4a8_awq",
    "nvfp4",
)
ROLES = ("text", "scorer")  # what an artifact is for
INT4_RESTS = ("int8", "fp16")  # of the layers that int4 leaves
GROUP_SIZES = (128, 64, 32, 16)  # of int4, tried in this order

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """What to build. ``name`` may be empty: the model's own name is taken."""

    model: str  # `smollm2`, a Hugging Face folder, a .gguf file, or a hub id
    name: str = ""
    role: str = ""  # text or scorer; empty: what the engine is for
    engine: str = "auto"
    quant: str = "int8"
    group_size: int = 0  # int4: weights that share a scale; 0: the largest that divides every matrix
    int4_ratio: float = 1.0  # int4: share of the inner weights at 4 bits; the most sensitive layers stay int8
    int4_rest: str = "int8"  # int4: what the other layers, the embeddings and the last one are: int8 or fp16
    bounds: QualityBounds | None = None  # what the engine may lose against its source; None: the quant's own
    drift: DriftBounds | None = None  # how far a scorer's logits may be from the source's; None: the quant's own
    allow_quality_loss: bool = False  # record what is lost, and build
    check_quality: bool = True  # False where the source does not fit into memory in fp32
    revision: str = ""  # of a hub id: branch, tag or commit; empty: the main branch
    offline: bool = False
    trust_remote_code: bool = False  # run the Python files inside the checkpoint, with all the rights of the build
    force: bool = False  # replace an artifact of the same name that has other inputs
    max_batch_size: int = 0  # the four limits are for engines compiled with limits; 0: the engine's own
    max_input_len: int = 0
    max_seq_len: int = 0
    max_num_tokens: int = 0
    form: str = ""  # from here on, of engines for GPUs: engine or checkpoint; empty: what the source is
    tp: int = 1  # GPUs that share each layer
    pp: int = 1  # groups of GPUs that share the layers
    kv_dtype: str = "auto"  # of the KV cache: auto (16 bits), fp8, int8, nvfp4
    calib: str = ""  # a local text file to calibrate with; empty: the library's own data, from the network
    gpu: str = ""  # the kind it will run on, for the checks where none is seen
    gpus_per_node: int = 8
    max_beam_width: int = 1
    max_lora_rank: int = 0  # 0: no LoRA
    lora_modules: tuple[str, ...] = ()
    speculative: str = "none"
    max_draft_len: int = 0
    log_probs: str = "none"  # logits that the engine keeps for them: none, output, all (the prompt's too)
    plugins: tuple[str, ...] = ()  # OPTION=VALUE of the library's plugin options

    def __post_init__(self) -> None:
        if not self.model:
            raise SpecError(f"model '': it must not be empty; give '{DEFAULT_MODEL}', a folder, a file or a hub id.")
        object.__setattr__(self, "name", self.name or default_name(self.model))
        check_name(self.name)
        if self.quant not in QUANTISATIONS:
            raise SpecError(f"quant '{self.quant}': it must be one of {', '.join(QUANTISATIONS)}.")
        if self.role not in ("", *ROLES):
            raise SpecError(f"role '{self.role}': it must be one of {', '.join(ROLES)}, or empty for the engine's own.")
        self._check_numbers()
        check_gpu_knobs(self)

    def _check_numbers(self) -> None:
        if self.group_size and self.quant not in GROUPED:
            raise SpecError(f"group_size {self.group_size}: only int4 has groups; drop it or choose quant int4.")
        if self.group_size and (self.group_size < 8 or self.group_size & (self.group_size - 1)):
            raise SpecError(f"group_size {self.group_size}: it must be a power of two, 8 or more, or 0 to choose.")
        if not 0.0 < self.int4_ratio <= 1.0:
            raise SpecError(f"int4_ratio {self.int4_ratio}: it must be above 0 and at most 1.")
        if self.int4_ratio < 1.0 and self.quant != "int4":
            raise SpecError(f"int4_ratio {self.int4_ratio}: only int4 has one; drop it or choose quant int4.")
        if self.int4_rest not in INT4_RESTS:
            raise SpecError(f"int4_rest '{self.int4_rest}': it must be one of {', '.join(INT4_RESTS)}.")
        if self.int4_rest != INT4_RESTS[0] and self.quant != "int4":
            raise SpecError(f"int4_rest '{self.int4_rest}': only int4 has one; drop it or choose quant int4.")
        for limit in ("max_batch_size", "max_input_len", "max_seq_len", "max_num_tokens"):
            if getattr(self, limit) < 0:
                raise SpecError(f"{limit} {getattr(self, limit)}: it must be 0 (the engine's own) or more.")

    @property
    def quality_bounds(self) -> QualityBounds:
        return self.bounds or BOUNDS[self.quant]

    @property
    def limits(self) -> Limits:
        return Limits(
            max_batch_size=self.max_batch_size,
            max_input_len=self.max_input_len,
            max_seq_len=self.max_seq_len,
            max_num_tokens=self.max_num_tokens,
        )


def check_name(name: str) -> str:
    """Return ``name`` when a new artifact or served model can have it.

    Raises:
        SpecError: it cannot be a folder, or it would be taken for a part of another served model.
    """
    check_folder_name(name)
    for role in ROLES_OF_A_MODEL:
        ending = role_model("", role)
        if name.endswith(ending):
            raise SpecError(
                f"name '{name}': it ends in '{ending}', as a part of the served model '{name.removesuffix(ending)}' "
                f"would; names must not end in {', '.join(role_model('', each) for each in ROLES_OF_A_MODEL)}: choose "
                "another."
            )
    return name


def check_folder_name(name: str) -> str:
    """Return ``name`` when it can be a folder's.

    Raises:
        SpecError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"name '{name}': it must be letters, digits, '.', '_' and '-', and begin with a letter or digit; choose "
            "another."
        )
    return name


def default_name(model: str) -> str:
    """The artifact's name where none is given: the last part of the source, without `.gguf`."""
    last = Path(model).expanduser().name or Path(model).resolve().name
    return re.sub(r"[^A-Za-z0-9._-]", "-", last.removesuffix(".gguf")).strip("-._") or "model"
