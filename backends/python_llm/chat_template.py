"""A checkpoint's chat template: Jinja in a sandbox, with the names Hugging Face templates rely on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from python_llm.errors import CallerMistake, InvalidRequest

__all__ = ["ChatTemplate"]

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")
_FAILURES = (TypeError, ValueError, LookupError, AttributeError, RecursionError)  # of a template that goes wrong


class ChatTemplate:
    """Renders messages to the prompt's text."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], *, tool_source: str | None = None) -> None:
        """``special_tokens`` are the names a template may use, such as ``bos_token``.

        ``tool_source`` takes the place of ``source`` when there are tools: some checkpoints have one of its own.

        Raises:
            CallerMistake: a template does not compile.
        """
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
            self._tool_template = environment.from_string(tool_source) if tool_source else self._template
        except jinja2.TemplateSyntaxError as error:
            raise CallerMistake(
                f"chat template, line {error.lineno}: {error.message}; it must compile: mend the checkpoint's template."
            ) from error

    @staticmethod
    def load(folder: Path) -> ChatTemplate | None:
        """Read chat_template.jinja, chat_template.json or tokenizer_config.json: text, or several by name."""
        config = _read_json(folder / "tokenizer_config.json")
        named = _sources(folder, config)
        source = named.get("default") or next(iter(named.values()), None)
        if not source:
            return None
        tokens = {**_read_json(folder / "special_tokens_map.json"), **config}
        special = {name: _text_of(tokens.get(name)) for name in _SPECIAL_TOKENS}
        return ChatTemplate(source, special, tool_source=named.get("tool_use"))

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None) -> str:
        """The prompt's text, ending where the assistant's answer begins.

        Raises:
            InvalidRequest: the template refuses the messages, or they lack what it needs; its own text is kept.
        """
        try:
            template = self._tool_template if tools else self._template
            return template.render(
                messages=messages, tools=tools or None, add_generation_prompt=True, **self._special_tokens
            )
        except (jinja2.TemplateError, *_FAILURES) as error:
            raise InvalidRequest(
                "template_refused",
                f"messages: the model's chat template refused them: {_told(error)}; change the messages.",
            ) from error


def _told(error: Exception) -> str:
    """The template's own words; Python's help no caller."""
    if not isinstance(error, jinja2.TemplateError):
        return "a part of them is missing or has a type that it cannot use"
    return str(error).replace("'dict object'", "a message or a part of one")


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


class _Generation(jinja2.ext.Extension):
    """``{% generation %}`` marks the assistant's words for training; here its content is just content."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _sources(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name, in transformers' order of files."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return {"default": file.read_text("utf-8")}
    source = _read_json(folder / "chat_template.json").get("chat_template") or config.get("chat_template")
    if isinstance(source, list):
        return {entry["name"]: entry["template"] for entry in source}
    if isinstance(source, Mapping):
        return dict(source)
    return {"default": source} if source else {}


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """transformers' own filter: no HTML escapes, text as it is."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _text_of(token: Any) -> str:
    """Special tokens stand in tokenizer_config.json as text or as an AddedToken object."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token or ""


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise CallerMistake(f"'{file}': {error}; it must be JSON: build the artifact again.") from error
    return found if isinstance(found, dict) else {}
