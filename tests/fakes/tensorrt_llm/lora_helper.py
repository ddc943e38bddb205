"""LoRA's configuration."""

from tensorrt_llm._shape import make

__all__ = ["LoraConfig"]

LoraConfig = make("LoraConfig")
