"""``srun``, ``mpirun`` and ``trtllm-llmapi-launch`` on one machine: ranks are processes, and do what the real ones do.

The first two start as many copies of what stands behind their flags as they are told; the third runs its command on
rank 0 and waits on every other rank, as a worker does. A rank that fails ends all.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["install_launchers"]

_START = """#!{python}
import os, subprocess, sys, threading
flags = sys.argv[1:]
count, command = 0, []
while flags:
    flag = flags.pop(0)
    if flag.startswith("--ntasks="):
        count = int(flag.partition("=")[2])
    elif flag == "-n":
        count = int(flags.pop(0))
    elif flag == "--map-by":
        flags.pop(0)
    elif not flag.startswith("-"):
        command = [flag, *flags]
        break
ranks = [
    subprocess.Popen(command, env={{**os.environ, "FAKE_RANK": str(rank), "FAKE_RANKS": str(count)}},
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for rank in range(count)
]
ended = threading.Event()
lines = [[] for _ in ranks]
codes = [None] * count

def follow(rank):
    for line in ranks[rank].stdout:
        sys.stdout.write(f"[rank {{rank}}] {{line}}")
        lines[rank].append(line)
    codes[rank] = ranks[rank].wait()
    if rank == 0 or codes[rank]:
        ended.set()

threads = [threading.Thread(target=follow, args=(rank,)) for rank in range(count)]
for thread in threads:
    thread.start()
ended.wait()
for rank in ranks:
    rank.stdin.close()
    if any(codes):
        rank.terminate()
for thread in threads:
    thread.join()
failed = [rank for rank, code in enumerate(codes) if code and code > 0]
for rank in failed:
    print(f"rank {{rank}} failed with code {{codes[rank]}}: {{lines[rank][-1:]}}")
sys.exit(1 if failed else 0)
"""

_LAUNCH = """#!{python}
import os, sys
rank = int(os.environ["FAKE_RANK"])
if os.environ.get("FAKE_DYING_RANK") == str(rank):
    print("out of memory", flush=True)
    sys.exit(9)
if rank == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
print("worker", flush=True)
sys.stdin.read()
"""


def install_launchers(folder: Path) -> Path:
    """Make ``folder``, for PATH, with the three commands."""
    folder.mkdir(parents=True)
    for name, program in {"srun": _START, "mpirun": _START, "trtllm-llmapi-launch": _LAUNCH}.items():
        file = folder / name
        file.write_text(program.format(python=sys.executable), "utf-8")
        file.chmod(0o755)
    return folder
