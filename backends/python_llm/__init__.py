"""python_llm: the Triton backend that serves an LLM engine. Importing it needs numpy and no more."""
