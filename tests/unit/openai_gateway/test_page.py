"""How the page and its files are answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from openai_gateway.routes.page import HEADERS, add_page


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = Starlette()
    add_page(app)
    with TestClient(app) as asking:
        yield asking


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/static/js/app.js", "text/javascript"),
        ("/static/css/tokens.css", "text/css"),
        ("/static/logo.svg", "image/svg+xml"),
    ],
)
def test_each_file_comes_with_its_kind_and_the_policy(client: TestClient, path: str, kind: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].partition(";")[0] == kind
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    again = client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert again.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    assert client.head(path).status_code == 200


def test_the_policy_allows_no_inline_code_and_no_other_place(client: TestClient) -> None:
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    for source in ("script-src", "style-src", "img-src", "connect-src"):
        assert policy[source] == "'self'"


@pytest.mark.parametrize(
    "path",
    ["/static/nothing.js", "/static/../routes/page.py", "/static/%2e%2e/routes/page.py", "/static/", "/index.html"],
)
def test_nothing_else_is_there(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_file_is_only_read(client: TestClient) -> None:
    assert client.post("/").status_code == 405
    assert client.delete("/static/js/app.js").status_code == 405
