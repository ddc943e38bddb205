"""A served engine without adapters refuses each way to name one, whatever the route, and answers the next request."""

from __future__ import annotations

import httpx
import pytest

from server_under_test import ServerUnderTest

TEXT = "The ferry left the small harbour"


@pytest.mark.parametrize("model", ["tiny", "tiny-generator", "tiny-unary"])
@pytest.mark.parametrize(
    ("asked", "subject"), [({"lora_name": "french"}, "lora_name 'french'"), ({"lora_task_id": 2}, "lora_task_id 2")]
)
def test_an_adapter_is_refused_by_its_name(
    server: ServerUnderTest, model: str, asked: dict[str, object], subject: str
) -> None:
    body = {"text_input": TEXT, "max_tokens": 2}
    refused = httpx.post(f"{server.http_url}/v2/models/{model}/generate", json={**body, **asked}, timeout=120)
    assert refused.status_code == 400  # Triton has one for all
    assert f"[UNSUPPORTED not_supported] {subject}: no adapter is loaded" in refused.json()["error"]
    assert httpx.post(f"{server.http_url}/v2/models/{model}/generate", json=body, timeout=120).status_code == 200
