"""The LLM of engines, as long as the version has it."""

from tensorrt_llm._llm import EngineLLM as LLM
from tensorrt_llm._shape import HAS_ENGINES

if not HAS_ENGINES:
    raise ModuleNotFoundError("No module named 'tensorrt_llm._tensorrt_engine'", name="tensorrt_llm._tensorrt_engine")

__all__ = ["LLM"]
