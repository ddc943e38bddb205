"""Requests drawn from the published OpenAPI, and from its edges: whatever they say, the gateway does not break."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import status_code_conformance

from openai_gateway.app import create_app
from openai_gateway.protection.metered import Metered
from openai_gateway.protection.settings import ProtectionSettings
from openai_gateway.protection.stack import protect
from openai_gateway.upstream import ModelCard
from scripted_upstream import ScriptedUpstream, Step, words
from triton_llm_client import Chunk

# As many answers as may be asked for; nobody minds those that were not.
ANSWER: list[Step] = [Chunk("text", (1,)), *words(" more", prompt_tokens=3)]
UPSTREAM = ScriptedUpstream([ANSWER], [ModelCard("m", versions={"1": "READY"}, context_length=64, tool_calls="hermes")])
APP = protect(create_app(Metered(UPSTREAM)), ProtectionSettings())
HEADERS = {"Host": "127.0.0.1:9000"}

schema = schemathesis.openapi.from_asgi("/openapi.json", APP, headers=HEADERS)


@schema.parametrize()
@settings(max_examples=30)
def test_no_request_breaks_the_gateway(case: Any) -> None:
    checks = [not_a_server_error, status_code_conformance]
    case.call_and_validate(headers=HEADERS, checks=checks)
    if isinstance(case.body, dict) and "model" in case.body:
        case.body["model"] = "m"  # a name that nobody draws: the rest of the body is read then
        case.call_and_validate(headers=HEADERS, checks=checks)
