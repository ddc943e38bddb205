"""Clients of a served model: typed, streaming, cancellable; gRPC or HTTP; synchronous or asyncio.

``Client`` and ``AsyncClient`` are the doors; errors are those of ``python_llm.errors`` and ServerUnreachable.
"""

from triton_llm_client.aio import AsyncClient, new_request_id
from triton_llm_client.client import Client
from triton_llm_client.failures import ServerUnreachable
from triton_llm_client.params import GenerateParams, Messages, Prompt
from triton_llm_client.results import Chunk, Completion

__all__ = [
    "AsyncClient",
    "Chunk",
    "Client",
    "Completion",
    "GenerateParams",
    "Messages",
    "Prompt",
    "ServerUnreachable",
    "new_request_id",
]
