"""TensorRT-LLM's used surface, small and real: it decodes a toy model on the CPU.

Its classes take their fields from ``python_llm/engines/tensorrt/api.json``, so an argument the library does not have
raises here as it would there. ``TENSORRT_LLM_FAKE_VERSION`` chooses the shape (default: the pinned version). A model
folder may hold ``tensorrt_llm_fake.json``, see ``_script``. It is put on a server's path by ``fake_tensorrt_llm``.
"""

from tensorrt_llm._llm import LLM
from tensorrt_llm._shape import VERSION as __version__
from tensorrt_llm.llmapi import SamplingParams

__all__ = ["LLM", "SamplingParams", "__version__"]
