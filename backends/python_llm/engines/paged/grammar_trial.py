"""A program: compiles one grammar where a crash or an endless loop hurts nobody, and prints the library's complaint.

Called with the folder of llguidance's extension module and the CPU seconds and bytes of memory it may use; the
grammar comes by stdin. It needs no package, so that it starts in tens of milliseconds. Its thread has a small stack:
what does not overflow here overflows nowhere else.
"""

from __future__ import annotations

import resource
import sys
import threading

STACK_BYTES = 1 << 20
READY, DONE = b"ready\n", b"\ndone"  # what comes before and behind the complaint, which may be empty


def main() -> None:
    folder, cpu_seconds, memory_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    grammar = sys.stdin.buffer.read().decode()
    sys.path.insert(0, folder)
    threading.stack_size(STACK_BYTES)
    trial = threading.Thread(target=_compile, args=(grammar,))
    trial.start()
    trial.join()


def _compile(grammar: str) -> None:
    from _lib import LLMatcher, LLParserLimits, LLTokenizer  # type: ignore[import-not-found]

    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    limits = LLParserLimits(verbose_errors=False)
    matcher = LLMatcher(LLTokenizer("byte"), grammar, log_level=0, limits=limits)
    if not matcher.is_error():
        matcher.compute_bitmask()
    sys.stdout.buffer.write(matcher.get_error().encode() + DONE)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
