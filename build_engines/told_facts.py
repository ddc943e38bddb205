"""What a generator's config.pbtxt tells clients about the model: how long it may get, and how it calls tools.

Read from the artifact, so that a gateway in front of Triton learns it over Triton's own model configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from build_engines.template import template_texts
from python_llm.artifact import MANIFEST, Artifact
from python_llm.settings import ServingConfig

__all__ = ["told_facts", "tool_calls_of"]

# Form of calls -> what stands in the templates of models that write them so, and what then stands in no such template.
_FORMS: Mapping[str, tuple[str, str]] = {
    # <tool_call>{"name": …, "arguments": …}</tool_call>; Qwen3-Coder and GLM put tags between the same marks.
    "hermes": (r"<tool_call>", r"<function=|<arg_key>"),
    "mistral": (r"\[TOOL_CALLS\]", r"<tool_call>"),
    # {"name": …, "parameters": …} as the whole answer
    "llama3": (r"<\|start_header_id\|>(?s:.*)[\"']parameters[\"']", r"(?i:<tool_?call)"),
}
_TOOLS = re.compile(r"\btools\b")  # the variable; a template without it cannot tell the model what there is to call


def told_facts(artifact: Path, serving: ServingConfig) -> Mapping[str, str]:
    """``context_length``, in tokens of prompt and output together, and ``tool_calls`` where the form is known.

    Empty where the artifact is not there (yet): nothing is known of it.
    """
    if not (artifact / MANIFEST).is_file():
        return {}
    manifest = Artifact.open(artifact).manifest
    bounds = (manifest.model.context_length, manifest.limits.max_seq_len, serving.max_sequence_len)
    form = tool_calls_of(template_texts(artifact))
    return {
        "context_length": str(min(bound for bound in bounds if bound)),
        **({"tool_calls": form} if form else {}),
    }


def tool_calls_of(templates: Mapping[str, str]) -> str | None:
    """The form in which a model with these chat templates writes calls of tools; None: it has none, or it is not known.

    The server renders tools with the template ``tool_use`` where there is one.
    """
    text = templates.get("tool_use") or templates.get("default") or next(iter(templates.values()), "")
    if not _TOOLS.search(text):
        return None
    forms = (form for form, (has, lacks) in _FORMS.items() if re.search(has, text) and not re.search(lacks, text))
    return next(forms, None)
