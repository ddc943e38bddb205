"""Rooms of the TensorRT-LLM builder; the door is builders/tensorrt_llm.py.

target.py        what is built: the spec's words in the library's, limits filled in
checks.py        everything that can be checked without a GPU, all at once
api_route.py     calls of the LLM API (calls.py), where as many GPUs are visible as there are ranks
command_route.py quantise or convert, then trtllm-build, with fewer
container.py     where the library is, and how to get in; machine.py: what of it is installed
calibration.py   a local text as the library's calibration data
engine_files.py  rank files and config.json of what was built
quantised.py     ModelOpt's quantised folders, which need no build
dry_run.py       all of it, said and not done
"""
