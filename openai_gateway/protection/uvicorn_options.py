"""What uvicorn is told for the protection's sake."""

from __future__ import annotations

import ssl
from typing import Any

from openai_gateway.protection.header_deadline import http_protocol
from openai_gateway.protection.settings import ProtectionSettings
from python_llm.errors import CallerMistake

__all__ = ["uvicorn_options"]


def uvicorn_options(settings: ProtectionSettings) -> dict[str, Any]:
    """Keyword arguments of ``uvicorn.Config``.

    Raises:
        CallerMistake: the certificate, its key and the authority do not make TLS.
    """
    options: dict[str, Any] = {
        "http": http_protocol(settings.header_seconds),
        "ws": "none",
        "server_header": False,
        "proxy_headers": False,  # who asks is told by the connection; a header is anybody's
    }
    if settings.tls_certificate is not None:
        options |= {
            "ssl_certfile": settings.tls_certificate,
            "ssl_keyfile": settings.tls_key,
            "ssl_ca_certs": settings.tls_client_ca,
            "ssl_cert_reqs": ssl.CERT_NONE if settings.tls_client_ca is None else ssl.CERT_REQUIRED,
        }
        _check(settings)
    return options


def _check(settings: ProtectionSettings) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert settings.tls_certificate is not None
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=_no_password)
        if settings.tls_client_ca is not None:
            context.load_verify_locations(settings.tls_client_ca)
    except (ssl.SSLError, OSError) as error:
        raise CallerMistake(
            f"TLS certificate '{settings.tls_certificate}': {error.strerror or error}; give a PEM chain, its "
            "unencrypted key and, for clients, a PEM authority."
        ) from error


def _no_password() -> str:
    raise ssl.SSLError("the key is encrypted")
