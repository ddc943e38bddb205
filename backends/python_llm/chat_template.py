"""A checkpoint's chat template: Jinja in a sandbox, with the names Hugging Face templates rely on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.sandbox

from python_llm.errors import CallerMistake, InvalidRequest

__all__ = ["ChatTemplate"]

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class ChatTemplate:
    """Renders messages to the prompt's text."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """``special_tokens`` are the names a template may use, such as ``bos_token``.

        Raises:
            CallerMistake: the template does not compile.
        """
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self._special_tokens = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise CallerMistake(
                f"chat template, line {error.lineno}: {error.message}; it must compile: mend the checkpoint's template."
            ) from error

    @staticmethod
    def load(folder: Path) -> ChatTemplate | None:
        """Read chat_template.jinja or tokenizer_config.json's chat_template (text, or a list with a default)."""
        config = _read_json(folder / "tokenizer_config.json")
        file = folder / "chat_template.jinja"
        source = file.read_text("utf-8") if file.is_file() else config.get("chat_template")
        if isinstance(source, list):
            named = {entry["name"]: entry["template"] for entry in source}
            source = named.get("default", next(iter(named.values()), None))
        if not source:
            return None
        return ChatTemplate(source, {name: _text_of(config.get(name)) for name in _SPECIAL_TOKENS})

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None) -> str:
        """The prompt's text, ending where the assistant's answer begins.

        Raises:
            InvalidRequest: the template refuses the messages, or they lack what it needs; its own text is kept.
        """
        try:
            return self._template.render(
                messages=messages, tools=tools or None, add_generation_prompt=True, **self._special_tokens
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise InvalidRequest(
                "template_refused", f"messages: the model's chat template refused them: {error}; change the messages."
            ) from error


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


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
