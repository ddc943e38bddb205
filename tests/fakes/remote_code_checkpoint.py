"""A tiny checkpoint whose architecture is code of its own: a Llama whose blocks add half of what they compute."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_checkpoint import make_tiny_checkpoint

__all__ = ["MARKER", "make_remote_code_checkpoint"]

MARKER = "code-was-run"  # the file that the module writes beside the weights when it is imported

_CONFIGURATION = """
from transformers import LlamaConfig


class HalvedConfig(LlamaConfig):
    model_type = "halved_llama"

    def __init__(self, share=0.5, **options):
        self.share = share
        super().__init__(**options)
"""

_MODELING = """
from pathlib import Path

from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaMLP

from .configuration_halved import HalvedConfig

Path({marker!r}).write_text("imported")


class HalvedMLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.share = config.share

    def forward(self, x):
        return self.share * super().forward(x)


class {name}({base}):
    config_class = HalvedConfig
{body}
"""

_BODY = """
    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            layer.mlp = HalvedMLP(config)
        self.post_init()
"""


def make_remote_code_checkpoint(folder: Path, *, derived: bool = True, **options: object) -> Path:
    """Write the checkpoint and return ``folder``. Its weights are a tiny Llama's, and only its code can use them.

    ``derived``: whether its class is a Llama's child, or of no family that anybody knows.
    """
    make_tiny_checkpoint(folder, **options)  # type: ignore[arg-type]
    bases = "LlamaForCausalLM" if derived else "PreTrainedModel, GenerationMixin"
    text = _MODELING.format(marker=str(folder / MARKER), name="HalvedForCausalLM", base=bases, body=_BODY)
    if not derived:
        text = "from transformers import GenerationMixin, PreTrainedModel\n" + text
    (folder / "configuration_halved.py").write_text(_CONFIGURATION, "utf-8")
    (folder / "modeling_halved.py").write_text(text, "utf-8")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {
        "model_type": "halved_llama",
        "architectures": ["HalvedForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_halved.HalvedConfig",
            "AutoModelForCausalLM": "modeling_halved.HalvedForCausalLM",
        },
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    return folder
