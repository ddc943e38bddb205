"""Chat templates: as Hugging Face's, in a sandbox, with the template's own refusals kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from python_llm.chat_template import ChatTemplate
from python_llm.errors import CallerMistake, InvalidRequest

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<é>"}]


def test_it_renders_as_transformers_does(checkpoint: Path) -> None:
    template = ChatTemplate.load(checkpoint)
    assert template is not None
    auto: Any = AutoTokenizer
    reference = auto.from_pretrained(checkpoint)
    assert template.render(MESSAGES) == reference.apply_chat_template(
        MESSAGES, tokenize=False, add_generation_prompt=True
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{{ messages[0].content }}", "<s>Be brief."),
        ("{{ pad_token }}|{{ unk_token }}|{{ eos_token }}", "|<unk>|</s>"),
        ("{{ messages | tojson }}", json.dumps(MESSAGES, ensure_ascii=False)),
        ("{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        ("{% if tools %}yes{% else %}no{% endif %}", "no"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("a\n  {% if true %}\nb{% endif %}", "a\nb"),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}!", "system!"),
        ("{{ {'b': 1, 'a': '<é>'} | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":"<é>","b":1}'),
    ],
)
def test_the_names_templates_rely_on_are_there(source: str, text: str) -> None:
    special = {"bos_token": "<s>", "unk_token": "<unk>", "eos_token": "</s>", "pad_token": ""}
    assert ChatTemplate(source, special).render(MESSAGES) == text


def test_tools_reach_the_template() -> None:
    assert ChatTemplate("{{ tools[0].name }}", {}).render(MESSAGES, [{"name": "add"}]) == "add"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].missing.deeper }}", "missing"),
        ("{{ messages[9].content + 'x' }}", ""),
        ("{{ ''.__class__.__mro__ }}", "__class__"),
        ("{{ messages.append(1) }}", "append"),
        ("{{ messages[0].content + 1 }}", "has a type that it cannot use"),
    ],
)
def test_a_refusal_is_the_callers_mistake_and_keeps_the_templates_words(source: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ChatTemplate(source, {}).render(MESSAGES)
    assert (caught.value.code, caught.value.reason) == ("INVALID_ARG", "template_refused")
    assert words in caught.value.text
    assert not any(word in caught.value.text for word in ("concatenate", "dict object"))
    assert "change the messages" in caught.value.text


def test_a_template_that_does_not_compile_names_the_line() -> None:
    with pytest.raises(CallerMistake, match="line 2"):
        ChatTemplate("fine\n{% for %}", {})


def write(folder: Path, **config: Any) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def test_where_the_template_is_found(tmp_path: Path) -> None:
    assert ChatTemplate.load(tmp_path) is None
    assert ChatTemplate.load(write(tmp_path, bos_token="<s>")) is None
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "{{ bos_token }}!"}]
    template = ChatTemplate.load(write(tmp_path, chat_template=named, bos_token={"content": "<s>"}))
    assert template is not None
    assert template.render(MESSAGES) == "<s>!"
    (tmp_path / "chat_template.jinja").write_text("from the file", "utf-8")
    template = ChatTemplate.load(tmp_path)
    assert template is not None
    assert template.render(MESSAGES) == "from the file"


def test_a_broken_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{", "utf-8")
    with pytest.raises(CallerMistake, match=r"tokenizer_config.json'.*build the artifact again"):
        ChatTemplate.load(tmp_path)


def test_tools_have_a_template_of_their_own_where_the_checkpoint_has_one() -> None:
    template = ChatTemplate("plain", {}, tool_source="{{ tools[0].name }}")
    assert template.render(MESSAGES) == "plain"
    assert template.render(MESSAGES, [{"name": "add"}]) == "add"


NAMED = [{"name": "tool_use", "template": "T{{ eos_token }}"}, {"name": "default", "template": "D{{ eos_token }}"}]


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"chat_template.jinja": "J{{ eos_token }}", "tokenizer_config.json": {"chat_template": "C"}}, "J</s>"),
        ({"chat_template.json": {"chat_template": "F{{ eos_token }}"}}, "F</s>"),
        ({"tokenizer_config.json": {"chat_template": "C{{ eos_token }}"}}, "C</s>"),
        ({"tokenizer_config.json": {"chat_template": NAMED}}, "D</s>"),
        ({"tokenizer_config.json": {"chat_template": {"default": "M", "rag": "R"}}}, "M"),
        ({"tokenizer_config.json": {"chat_template": "E{{ eos_token }}", "eos_token": {"content": "<e>"}}}, "E<e>"),
    ],
)
def test_it_is_found_wherever_the_checkpoint_keeps_it(tmp_path: Path, files: dict[str, Any], text: str) -> None:
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": {"content": "</s>"}}')
    for name, content in files.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    template = ChatTemplate.load(tmp_path)
    assert template is not None
    assert template.render(MESSAGES) == text
