"""The silence of third parties while an engine is built."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

__all__ = ["quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Third parties print bars, advice and tracer warnings; the caller has its own progress and errors."""
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # tracing warns of every Python value it freezes, by the hundred
        with _quiet_loggers():
            yield


@contextmanager
def _quiet_loggers() -> Iterator[None]:
    import nncf
    from transformers.utils import logging as transformers_logging

    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    silenced = [logging.getLogger(name) for name in ("optimum", "optimum.intel", "openvino")]
    before = [logger.level for logger in silenced]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    nncf.set_log_level(logging.ERROR)
    for logger in silenced:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        for logger, old in zip(silenced, before, strict=True):
            logger.setLevel(old)
