"""Arrow three of the house: start Triton on a model repository, watch it, restart it, drain it.

``triton_launcher.supervisor.serve(ServeOptions(...))`` is what ``triton-llm serve`` calls. Nothing is imported here:
the guard process must stay small.
"""
