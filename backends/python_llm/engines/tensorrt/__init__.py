"""The rooms of the TensorRT-LLM engine; the door is ``python_llm.engines.tensorrt_llm``."""
