"""The server that subjects share: the one at the given address, or one of the bench's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from triton_llm_client.bench.server import own_server
from triton_llm_client.bench.subjects import OF_A_SERVER, Setting

__all__ = ["with_server"]


@contextmanager
def with_server(setting: Setting, subjects: Iterable[str]) -> Iterator[Setting]:
    """The setting with addresses: where none is known and a subject needs one, a server runs until the block ends."""
    needed = OF_A_SERVER.intersection(subjects)
    if not needed or setting.url is not None:
        yield setting
        return
    with own_server(setting.artifact, setting.model, gateway="gateway" in needed) as server:
        yield replace(
            setting,
            url=server.url,
            http_url=server.http_url,
            metrics_url=server.metrics_url,
            gateway_url=server.gateway_url or None,
            folder=server.folder,
        )
