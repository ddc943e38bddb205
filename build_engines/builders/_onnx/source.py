"""The checkpoint as a function of ids and mask alone: what is exported, and what the export is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from build_engines.remote_code import code_errors

__all__ = ["load_source"]


def load_source(folder: Path, dtype: str, *, trusted: bool) -> Any:
    """A torch module: input_ids, attention_mask [batch, n] int64 → logits [batch, n, vocabulary] fp32.

    Positions are counted by the mask, so that padding may stand before the tokens or behind them. ``dtype``: of the
    weights, as torch names it.
    """
    import torch
    from transformers import AutoModelForCausalLM

    load: Any = AutoModelForCausalLM.from_pretrained
    with code_errors(folder, trusted=trusted):
        model = load(str(folder), dtype=getattr(torch, dtype), local_files_only=True, trust_remote_code=trusted).eval()

    class Source(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
            found = self.model(
                input_ids=input_ids, attention_mask=attention_mask, position_ids=positions, use_cache=False
            )
            return found.logits.float()

    return Source().eval()
