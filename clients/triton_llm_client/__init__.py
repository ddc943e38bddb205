"""Clients of a served model: typed, streaming, cancellable; gRPC or HTTP; synchronous or asyncio.

``Client`` and ``AsyncClient`` are the doors; errors are those of ``python_llm.errors`` and ServerUnreachable.
"""

from triton_llm_client.aio import AsyncClient, new_request_id
from triton_llm_client.chunks import Chunk
from triton_llm_client.client import Client
from triton_llm_client.failures import ServerUnreachable
from triton_llm_client.log_probs import Alternative
from triton_llm_client.metrics import Metrics
from triton_llm_client.params import GenerateParams
from triton_llm_client.prompts import Messages, Prompt
from triton_llm_client.results import Choice, Completion

__all__ = [
    "Alternative",
    "AsyncClient",
    "Choice",
    "Chunk",
    "Client",
    "Completion",
    "GenerateParams",
    "Messages",
    "Metrics",
    "Prompt",
    "ServerUnreachable",
    "new_request_id",
]
