"""triton_llm: the command line of the house, and nothing else."""
