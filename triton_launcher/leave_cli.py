"""``triton-llm drain``: tell a server that it will be stopped, and wait until nobody is left. A container's preStop.

The server goes on serving: it only says that it is not ready, so that balancers look elsewhere. What still runs when
the time is up is finished by the drain that SIGTERM begins.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import time
import urllib.error
import urllib.request

from triton_launcher.errors import LaunchRefused
from triton_launcher.ports import Ports
from triton_launcher.progress import say

__all__ = ["add_arguments", "in_flight", "run"]

_LOOK_SECONDS = 0.5
_CALL_SECONDS = 5.0
_GAUGE = re.compile(r"^triton_llm_requests_(?:running|waiting)(?:\{[^}]*\})? (?P<value>\S+)$", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ports = Ports()
    for name in ("health", "metrics"):
        default = os.environ.get(f"{name.upper()}_PORT") or getattr(ports, name)
        parser.add_argument(f"--{name}-port", type=int, default=default, metavar="PORT", help="(default: %(default)s)")
    parser.add_argument(
        "--settle-seconds", type=float, default=5.0, metavar="S", help="at least, for balancers to notice (default: 5)"
    )
    parser.add_argument(
        "--wait-seconds", type=float, default=15.0, metavar="S", help="at most, for requests to end (default: 15)"
    )


def run(args: argparse.Namespace) -> int:
    """0 when nothing was left, and when the time was up: the drain that follows finishes the rest.

    Raises:
        LaunchRefused: no launcher answers on the health port, or the times cannot hold.
    """
    if not 0 <= args.settle_seconds <= args.wait_seconds:
        raise LaunchRefused(
            f"--settle-seconds {args.settle_seconds:g}: it must be 0 or more and at most --wait-seconds "
            f"{args.wait_seconds:g}."
        )
    _leave(args.health_port)
    begin = time.monotonic()
    left = in_flight(args.metrics_port)
    while (waited := time.monotonic() - begin) < args.wait_seconds and (waited < args.settle_seconds or left):
        time.sleep(min(_LOOK_SECONDS, args.wait_seconds - waited))
        left = in_flight(args.metrics_port)
    say("nothing is left." if not left else f"{left} requests still run after {args.wait_seconds:g} s.")
    return 0


def _leave(port: int) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/leave", method="POST")
    try:
        urllib.request.urlopen(request, timeout=_CALL_SECONDS).close()
    except (OSError, http.client.HTTPException) as error:
        raise LaunchRefused(
            f"health port {port}: no launcher took the request to leave ({error}); name its port with --health-port."
        ) from error


def in_flight(port: int) -> int:
    """Requests that run or wait, by the generators' own gauges; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_CALL_SECONDS) as answer:
            text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return 0
    return int(sum(float(found["value"]) for found in _GAUGE.finditer(text)))
