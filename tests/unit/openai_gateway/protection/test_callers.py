"""Who is let in where: keys, scopes, models, hosts, origins."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from python_llm.errors import CallerMistake
from python_llm.settings import ADMIN_KEY_HEADER
from tests.unit.openai_gateway.protection.conftest import ASK, Guarded, bearer, guarded, keys

KEYS = keys(
    alice={"tenant": "team", "priority": 3, "models": ("m",)},
    boss={"scopes": ("api", "admin")},
    prom={"scopes": ("metrics",)},
    late={"expires": "2020-01-01"},
)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_key_is_asked_for_in_openais_words_and_its_tenant_reaches_the_generator() -> None:
    async def body() -> None:
        async with guarded(keys_text=KEYS) as gateway:
            for key in ("", "nobody", "late"):
                refused = await gateway.ask(key)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"] == "Bearer"
                error = refused.json()["error"]
                assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
                assert key not in error["message"] or not key
            assert (await gateway.client.post("/v1/completions", json=ASK, auth=("alice", "alice"))).status_code == 401
            assert not gateway.upstream.asked
            assert (await gateway.ask("alice")).status_code == 200
            _, params, _ = gateway.upstream.asked[0]
            assert (params.tenant, params.priority) == ("team", 3)

    run(body())


def test_a_keys_models_are_all_it_sees() -> None:
    async def body() -> None:
        async with guarded(keys_text=KEYS) as gateway:
            listed = await gateway.client.get("/v1/models", headers=bearer("alice"))
            assert [model["id"] for model in listed.json()["data"]] == ["m"]
            assert (await gateway.ask("alice", model="n")).json()["error"]["code"] == "model_not_found"
            assert (await gateway.ask("boss", model="n")).status_code == 200

    run(body())


def test_only_the_models_to_serve_are_there() -> None:
    async def body() -> None:
        async with guarded(models=("n",)) as gateway:
            listed = await gateway.client.get("/v1/models")
            assert [model["id"] for model in listed.json()["data"]] == ["n"]
            assert (await gateway.ask(model="m")).status_code == 404

    run(body())


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/", "", 200),
        ("/static/js/app.js", "", 200),
        ("/health/live", "", 200),
        ("/health/ready", "wrong", 200),
        ("/openapi.json", "", 200),
        ("/v1/models", "", 401),
        ("/v1/models", "prom", 403),
        ("/metrics", "", 401),
        ("/metrics", "alice", 403),
        ("/metrics", "prom", 200),
        ("/admin/models", "", 401),
        ("/admin/models", "alice", 403),
        ("/admin/models", "boss", 404),  # let in; this application has no such route
        ("/admin", "alice", 403),
        ("/staticx", "", 401),
        ("/static/../v1/models", "", 401),
        ("//v1/models", "", 401),
        ("/nowhere", "", 401),
    ],
)
def test_each_path_asks_for_its_scope(path: str, key: str, status: int) -> None:
    async def body() -> None:
        async with guarded(keys_text=KEYS) as gateway:
            assert (await gateway.client.get(path, headers=bearer(key))).status_code == status

    run(body())


def test_the_servers_behind_are_named_only_to_who_may_read_the_metrics() -> None:
    async def body() -> None:
        async with guarded(keys_text=KEYS) as gateway:
            said = {
                key: await gateway.client.get("/health/ready", headers=bearer(key)) for key in ("", "alice", "prom")
            }
            assert [len(answer.json()["servers"]) for answer in said.values()] == [0, 0, 1]
        async with guarded() as gateway:
            assert (await gateway.client.get("/health/ready")).json()["servers"]

    run(body())


def test_metrics_can_be_made_public() -> None:
    async def body() -> None:
        async with guarded(keys_text=KEYS, public_metrics=True) as gateway:
            assert (await gateway.client.get("/metrics")).status_code == 200

    run(body())


@pytest.mark.parametrize(
    ("where", "headers", "status"),
    [
        ({}, {}, 404),
        ({"client": "10.0.0.9"}, {}, 403),
        ({"host": "0.0.0.0", "anonymous": True}, {}, 403),
        ({}, {"X-Forwarded-For": "10.0.0.9"}, 403),
        ({}, {"Forwarded": "for=10.0.0.9"}, 403),
        ({"admin_key": "secret"}, {}, 403),
        ({"admin_key": "secret"}, {ADMIN_KEY_HEADER: "guess"}, 403),
        ({"admin_key": "secret"}, {ADMIN_KEY_HEADER: "secret"}, 404),
        ({"admin_key": "secret", "keys_text": KEYS}, {ADMIN_KEY_HEADER: "secret"}, 404),
    ],
)
def test_an_operator_is_this_machine_or_has_a_key(where: Any, headers: dict[str, str], status: int) -> None:
    """404: let in; this application has no such route."""

    async def body() -> None:
        async with guarded(**where) as gateway:
            assert (await gateway.client.get("/admin/models", headers=headers)).status_code == status

    run(body())


def test_without_keys_others_must_be_let_in_on_purpose() -> None:
    async def open_on(host: str, **settings: Any) -> None:
        async with guarded(host=host, **settings):
            pass

    for host in ("127.0.0.1", "::1", "localhost"):
        run(open_on(host))
    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org"):
        with pytest.raises(CallerMistake, match="no API keys are configured; make one with"):
            run(open_on(host))
    run(open_on("0.0.0.0", anonymous=True))
    run(open_on("0.0.0.0", keys_text=KEYS))


async def status(gateway: Guarded, **headers: str) -> int:
    return (await gateway.client.post("/v1/completions", json=ASK, headers=headers)).status_code


def test_pages_of_others_cannot_use_a_gateway_without_keys() -> None:
    async def body() -> None:
        async with guarded() as gateway:
            assert await status(gateway, Origin="http://evil.example") == 403
            assert await status(gateway, Origin="null") == 403
            assert await status(gateway, Origin="http://127.0.0.1:9000") == 200
            assert await status(gateway, Origin="http://evil.example", Host="evil.example") == 403
            assert await status(gateway, Host="localhost:9000") == 200
            assert await status(gateway, Host="[::1]:9000") == 200
            assert await status(gateway, Host="host.docker.internal:9000") == 200
        async with guarded(allowed_hosts=("llm.example",)) as gateway:
            assert await status(gateway, Host="LLM.example") == 200
            assert await status(gateway, Host="localhost") == 403
        async with guarded(keys_text=KEYS) as gateway:
            origin = {"Origin": "http://elsewhere.example", "Host": "any.example"}
            assert await status(gateway, **origin, **bearer("alice")) == 200

    run(body())


def test_cors_is_off_until_an_origin_is_named() -> None:
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}

    async def body() -> None:
        async with guarded(keys_text=KEYS) as gateway:
            answer = await gateway.client.options("/v1/completions", headers={"Origin": "http://a.example", **ask})
            assert "access-control-allow-origin" not in answer.headers
        async with guarded(keys_text=KEYS, cors_origins=("http://a.example",)) as gateway:
            answer = await gateway.client.options("/v1/completions", headers={"Origin": "http://a.example", **ask})
            assert answer.status_code == 200, "a preflight brings no key"
            assert answer.headers["access-control-allow-origin"] == "http://a.example"
            assert "authorization" in answer.headers["access-control-allow-headers"].lower()
            other = await gateway.client.options("/v1/completions", headers={"Origin": "http://b.example", **ask})
            assert "access-control-allow-origin" not in other.headers
            refused = await gateway.client.get("/v1/models", headers={"Origin": "http://a.example"})
            assert refused.status_code == 401
            assert refused.headers["access-control-allow-origin"] == "http://a.example", "the page can read why"
        async with guarded(cors_origins=("http://a.example",)) as gateway:
            assert await status(gateway, Origin="http://a.example") == 200

    run(body())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cors_origins": ("a.example",)}, "--cors-origin 'a.example': it must be scheme://host"),
        ({"cors_origins": ("http://a.example/",)}, "--cors-origin"),
        ({"header_seconds": 0}, "--header-seconds 0: it must be above 0"),
        ({"tls_certificate": "x"}, "one is given without the other"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    async def body() -> None:
        async with guarded(**settings):
            pass

    with pytest.raises(CallerMistake, match=said):
        run(body())
