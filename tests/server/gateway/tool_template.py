"""A chat template that tells the model its tools, in the form that Hermes and Qwen have."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["add_tool_template"]

_TEMPLATE = (
    "{% if tools %}{{ '<|im_start|>system\\n' }}"
    "{% for tool in tools %}{{ (tool.function.name | tojson) + '\\n' }}{% endfor %}"
    '{{ \'<tool_call>{"name": …, "arguments": …}</tool_call><|im_end|>\\n\' }}{% endif %}'
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] %}{{ message['content'] }}{% endif %}"
    "{% for call in message['tool_calls'] or [] %}"
    "{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def add_tool_template(checkpoint: Path) -> Path:
    """Put it in place of the checkpoint's own; returns ``checkpoint``."""
    file = checkpoint / "tokenizer_config.json"
    config = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**config, "chat_template": _TEMPLATE}), "utf-8")
    return checkpoint
