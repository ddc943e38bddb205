"""The guide that an output must follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from python_llm.admission_json import read_json
from python_llm.bounds import short_text
from python_llm.engine import Capabilities, Guide, GuideKind
from python_llm.errors import InvalidRequest, Unsupported

__all__ = ["read_guide"]

_LONGEST_GUIDE = 262_144  # characters
_KINDS: Mapping[str, GuideKind] = {kind: kind for kind in get_args(GuideKind)}
_OF_JSON = frozenset({"json_schema", "structural_tag"})


def read_guide(values: Mapping[str, Any], capabilities: Capabilities) -> Guide | None:
    name = values.get("guided_decoding_guide_type", "")
    text = short_text(values, "guided_decoding_guide", _LONGEST_GUIDE)
    if not name:
        if text:
            raise InvalidRequest(
                "guide_without_type",
                f"guided_decoding_guide: no guided_decoding_guide_type with it; send one of {', '.join(_KINDS)}.",
            )
        return None
    if name not in _KINDS:
        raise InvalidRequest(
            "unknown_guide_type",
            f"guided_decoding_guide_type '{name[:40]}': it must be one of {', '.join(_KINDS)}.",
        )
    return _checked(Guide(_KINDS[name], text), capabilities)


def _checked(guide: Guide, capabilities: Capabilities) -> Guide:
    if guide.kind not in capabilities.guides:
        able = ", ".join(sorted(capabilities.guides)) or "none"
        raise Unsupported(
            "not_supported", f"guided_decoding_guide_type '{guide.kind}': guides of this engine: {able}; leave it out."
        )
    if guide.kind == "json":
        return Guide("json")
    if not guide.text.strip():
        raise InvalidRequest("guide_missing", f"guided_decoding_guide: none; type {guide.kind} needs one.")
    if guide.kind in _OF_JSON:
        _check_json(guide)
    return guide


def _check_json(guide: Guide) -> None:
    try:
        read_json(guide.text)
    except ValueError as error:
        raise InvalidRequest(
            "guide_not_json", f"guided_decoding_guide: {error}; a {guide.kind} must be JSON."
        ) from error
