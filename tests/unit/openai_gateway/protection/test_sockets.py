"""Real sockets: clients that dribble, that stop reading, that come by TLS."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from openai_gateway.protection.settings import ProtectionSettings
from openai_gateway.protection.uvicorn_options import uvicorn_options
from plain_upstream import PlainUpstream
from python_llm.errors import CallerMistake
from tests.unit.openai_gateway.protection.conftest import ASK, guarded_app

WAIT = 60.0  # only catches hangs
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@contextmanager
def served(**settings: Any) -> Iterator[tuple[int, PlainUpstream]]:
    """The port of a gateway."""
    protection, upstream = ProtectionSettings(**settings), PlainUpstream()
    listener = socket.create_server(("127.0.0.1", 0))
    app = guarded_app(protection, upstream)
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0, **uvicorn_options(protection))
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1], upstream
    finally:
        server.should_exit = True
        thread.join(WAIT)
        assert not thread.is_alive()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT)


def read_to_the_end(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


def dribble(client: socket.socket, text: bytes) -> bytes:
    """Send a byte at a time until the server has had enough; all that it says until it hangs up."""
    said = b""
    client.settimeout(0.02)
    for _ in range(100_000):
        try:
            part = client.recv(65536)
        except TimeoutError:
            with suppress(ConnectionError):  # it hung up meanwhile: what it said before is still to be read
                client.sendall(text)
            continue
        except ConnectionError:
            return said
        if not part:
            return said
        said += part
    raise AssertionError("the server listens for ever")


@pytest.mark.parametrize("begins", [b"", b"POST /v1/comp", HEAD])
def test_a_head_that_does_not_end_is_given_up(begins: bytes) -> None:
    with served(header_seconds=0.3) as (port, _), connected(port) as client:
        client.sendall(begins)
        assert read_to_the_end(client).startswith(b"HTTP/1.1 408")


def test_a_head_that_dribbles_in_is_given_up_however_steadily() -> None:
    with served(header_seconds=0.3) as (port, _), connected(port) as client:
        client.sendall(HEAD + b"x: ")
        assert dribble(client, b"y") in (
            b"",
            b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        )


def test_the_second_request_of_a_connection_has_the_same_deadline() -> None:
    with served(header_seconds=0.3) as (port, _), connected(port) as client:
        client.sendall(b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET /health")
        assert b"HTTP/1.1 408" in read_to_the_end(client)


def test_a_head_in_time_has_no_deadline_for_its_answer() -> None:
    with served(header_seconds=0.3) as (port, upstream), connected(port) as client:
        upstream.gate.clear()
        body = b'{"model": "m", "prompt": "x", "stream": true}'
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        told = b""
        while b'"text":"w"' not in told:
            told += client.recv(65536)
        with connected(port) as other:  # its deadline begins later
            assert read_to_the_end(other).startswith(b"HTTP/1.1 408")
        client.setblocking(False)
        assert b"408" not in told
        with pytest.raises(BlockingIOError):
            client.recv(1)  # it is neither answered further nor closed


def test_a_body_that_dribbles_in_is_given_up() -> None:
    """And what is left of it is not waited for either."""
    with served(body_seconds=0.3, header_seconds=1.0) as (port, upstream), connected(port) as client:
        client.sendall(HEAD + b"content-length: 1000000\r\n\r\n{")
        said = dribble(client, b" ")
        assert said.startswith(b"HTTP/1.1 408")
        assert b"request_too_slow" in said
        assert not upstream.asked


def test_a_large_head_is_refused() -> None:
    with served() as (port, _), connected(port) as client:
        client.sendall(HEAD + b"x: " + b"y" * 200_000)
        try:
            said = read_to_the_end(client)
        except ConnectionResetError:  # it hung up on what is still on its way
            said = b""
        assert said == b"" or said.startswith(b"HTTP/1.1 400")


def test_a_body_above_the_limit_is_refused_while_it_comes() -> None:
    """Neither its length is told in advance nor does it ever end."""
    with served(header_seconds=1.0) as (port, _), connected(port) as client:
        client.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"

        def send() -> None:
            with suppress(OSError):
                while True:
                    client.sendall(chunk)

        sender = threading.Thread(target=send)
        sender.start()
        said = client.recv(65536)
        sender.join(WAIT)  # it is not listened to for ever
        assert not sender.is_alive()
        assert said.startswith(b"HTTP/1.1 413")


def test_a_length_above_the_limit_is_refused_before_the_body_comes() -> None:
    with served() as (port, _), connected(port) as client:
        client.sendall(HEAD + b"content-length: 99999999999\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_client_that_stops_reading_is_cut_and_its_place_is_free() -> None:
    with served(stalled_seconds=0.3) as (port, upstream), connected(port) as client:
        upstream.word = "x" * 2**20
        body = b'{"model": "m", "prompt": "x", "stream": true, "max_tokens": 1000}'
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        client.recv(100)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT) as other:
            while not upstream.left:
                assert other.get("/health/live").status_code == 200


def test_a_browsers_or_proxys_headers_do_not_say_who_asks() -> None:
    with served(keys_text="") as (port, _):
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/models", headers={"X-Forwarded-For": "10.0.0.1"}, timeout=WAIT)
        assert answer.status_code == 200
        assert "server" not in answer.headers


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True)
    return files


def test_tls_with_the_certificate_that_was_given(certificate: tuple[Path, Path]) -> None:
    with served(tls_certificate=certificate[0], tls_key=certificate[1]) as (port, _):
        context = ssl.create_default_context(cafile=str(certificate[0]))
        answer = httpx.post(f"https://127.0.0.1:{port}/v1/completions", json=ASK, verify=context, timeout=WAIT)
        assert answer.status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"https://127.0.0.1:{port}/", timeout=WAIT)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"http://127.0.0.1:{port}/", timeout=WAIT)


def test_clients_must_show_a_certificate_where_an_authority_is_named(certificate: tuple[Path, Path]) -> None:
    with served(tls_certificate=certificate[0], tls_key=certificate[1], tls_client_ca=certificate[0]) as (port, _):
        context = ssl.create_default_context(cafile=str(certificate[0]))
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://127.0.0.1:{port}/health/live", verify=context, timeout=WAIT)
        context.load_cert_chain(*certificate)
        assert httpx.get(f"https://127.0.0.1:{port}/health/live", verify=context, timeout=WAIT).status_code == 200


def test_a_certificate_that_is_none_stops_the_start(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "key.pem"
    other.write_text("no key")
    with pytest.raises(CallerMistake, match=r"TLS certificate '.*certificate.pem'"):
        uvicorn_options(ProtectionSettings(tls_certificate=certificate[0], tls_key=other))
    with pytest.raises(CallerMistake, match=r"TLS file '.*none.pem': it does not exist"):
        ProtectionSettings(tls_certificate=tmp_path / "none.pem", tls_key=other)
