"""The checkpoint's chat template must compile; which file holds it is said here once for the build."""

from __future__ import annotations

from pathlib import Path

from build_engines.errors import CheckpointError
from build_engines.json_files import read_object

__all__ = ["check_template", "template_texts"]


def template_texts(folder: Path) -> dict[str, str]:
    """The folder's chat templates by name; one without a name is the default.

    transformers' order: chat_template.jinja, chat_template.json, then tokenizer_config.json.
    """
    file = folder / "chat_template.jinja"
    if file.is_file():
        return {"default": _read_text(file)}
    for name in ("chat_template.json", "tokenizer_config.json"):
        found = read_object(folder / name).get("chat_template")
        if isinstance(found, list):
            return {str(entry.get("name")): str(entry.get("template")) for entry in found if isinstance(entry, dict)}
        if isinstance(found, dict):
            return {str(key): str(text) for key, text in found.items()}
        if found:
            return {"default": str(found)}
    return {}


def check_template(folder: Path, subject: Path) -> None:
    """Compile every template as transformers does; ``subject`` is the checkpoint they came from.

    Raises:
        CheckpointError: one does not compile.
    """
    import jinja2
    from transformers.utils.chat_template_utils import _compile_jinja_template  # the pinned version's own reading

    for name, text in template_texts(folder).items():
        try:
            _compile_jinja_template(text)
        except jinja2.TemplateSyntaxError as error:
            raise CheckpointError(
                f"checkpoint '{subject}': its chat template '{name}' does not compile (line {error.lineno}: "
                f"{error.message}); mend it, or take it out and send text prompts."
            ) from error


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"file '{file}': no UTF-8 text ({error}); fetch the checkpoint again.") from error
