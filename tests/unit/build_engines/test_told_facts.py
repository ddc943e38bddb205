"""What the gateway learns of a model out of its generator's config.pbtxt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bare_artifact import make_bare_artifact
from build_engines.repository import add_entry
from build_engines.told_facts import told_facts, tool_calls_of
from openai_gateway.tool_calls import FORMATS
from python_llm.settings import ServingConfig

# The lines that matter, in the words of each family's template.
QWEN = '{%- if tools %}{{ \'<tool_call>\\n{"name": <function-name>, "arguments": <args>}\\n</tool_call>\' }}{% endif %}'
QWEN_CODER = "{%- if tools %}{{ '<tool_call>\\n<function=example_name>' }}{% endif %}"
GLM = "{%- if tools %}{{ '<tool_call>{name}\\n<arg_key>{key}</arg_key>' }}{% endif %}"
LLAMA_3_1 = (
    "{%- if tools is not none %}{{- '<|start_header_id|>system<|end_header_id|>' }}"
    '{{- \'Respond in the format {"name": function name, "parameters": dictionary}.\' }}'
    "{{- '\"parameters\": ' }}{% endif %}"
)
LLAMA_3 = "{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>' }}{% endfor %}"
NEMOTRON = (
    "{% if tools %}{{ '<|start_header_id|>system<|end_header_id|>\"parameters\"<TOOLCALL>[]</TOOLCALL>' }}{% endif %}"
)
MISTRAL = "{%- if tools %}{{ '[AVAILABLE_TOOLS]' }}{{ '[TOOL_CALLS]' }}{% endif %}"
PLAIN = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
DEEPSEEK = "{% if tools %}{{ '<｜tool▁calls▁begin｜>' }}{% endif %}"  # noqa: RUF001


@pytest.mark.parametrize(
    ("templates", "form"),
    [
        ({"default": QWEN}, "hermes"),
        ({"default": PLAIN, "tool_use": QWEN}, "hermes"),
        ({"default": QWEN, "tool_use": MISTRAL}, "mistral"),
        ({"default": MISTRAL}, "mistral"),
        ({"default": LLAMA_3_1}, "llama3"),
        ({"named": LLAMA_3_1}, "llama3"),
        ({"default": QWEN_CODER}, None),
        ({"default": GLM}, None),
        ({"default": LLAMA_3}, None),
        ({"default": NEMOTRON}, None),
        ({"default": DEEPSEEK}, None),
        ({"default": PLAIN}, None),
        ({"default": "<tool_call> without a way in"}, None),
        ({}, None),
    ],
)
def test_the_form_of_calls_is_guessed_from_the_template(templates: dict[str, str], form: str | None) -> None:
    assert tool_calls_of(templates) == form
    assert form is None or form in FORMATS  # the gateway reads it


@pytest.mark.parametrize(
    ("built", "knob", "told"),
    [(0, 0, "4096"), (1024, 0, "1024"), (0, 512, "512"), (256, 512, "256"), (0, 9999, "4096")],
)
def test_the_context_is_the_least_of_all_bounds(tmp_path: Path, built: int, knob: int, told: str) -> None:
    artifact = make_bare_artifact(tmp_path / "a", context_length=4096, max_seq_len=built)
    assert told_facts(artifact, ServingConfig(max_sequence_len=knob)) == {"context_length": told}


def test_the_generators_config_alone_tells_it(tmp_path: Path) -> None:
    artifact = make_bare_artifact(tmp_path / "engines" / "qwen", context_length=4096, template=QWEN)
    folders = add_entry("qwen", artifact, tmp_path / "repository")
    told = {
        model: re.findall(r'^parameters { key: "(\w+)" value: { string_value: "(\w+)" } }$', text, re.MULTILINE)
        for model, folder in folders.items()
        if (text := (folder / "config.pbtxt").read_text())
    }
    assert told.pop("qwen-generator") == [("context_length", "4096"), ("tool_calls", "hermes")]
    assert not any(told.values())


def test_an_artifact_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert told_facts(tmp_path / "nowhere", ServingConfig()) == {}
