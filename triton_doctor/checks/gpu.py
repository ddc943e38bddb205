"""NVIDIA's driver and GPUs, by the driver's own tool: memory, ECC, PCIe, heat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triton_doctor.finding import Finding, advice, ok, unknown, wrong
from triton_doctor.machine import Machine
from triton_doctor.setup import Setup

__all__ = ["FIELDS", "check"]

_AREA = "gpu"
FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "ecc.errors.uncorrected.volatile.total",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "temperature.gpu",
)
_HOT = 88  # degrees Celsius: most data-centre GPUs slow down from here on
_BUSY_SHARE = 0.1


def check(machine: Machine, setup: Setup) -> Iterator[Finding]:
    done = machine.run(["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"])
    if done.code is None or done.code != 0:
        yield from _no_driver(machine, done.output)
        return
    yield from _cuda(machine)
    for line in done.output.strip().splitlines():
        yield from _gpu(dict(zip(FIELDS, line.split(", "), strict=False)), busy_is_ours=setup.running(machine))


def _no_driver(machine: Machine, said: str) -> Iterator[Finding]:
    if "Insufficient Permissions" in said:
        yield unknown(
            _AREA, "driver: nvidia-smi may not look at the GPUs", "run it as root, or join the group of /dev/nvidia*"
        )
    elif _has_nvidia(machine):
        why = f": {said.strip().splitlines()[0]}" if said.strip() else ""
        yield wrong(
            _AREA,
            f"driver: an NVIDIA GPU is plugged in, and nvidia-smi does not answer{why}",
            "install the driver, or start the container with --gpus all; then: nvidia-smi",
        )
    else:
        yield ok(_AREA, "no NVIDIA GPU: models are served on the CPU")


def _has_nvidia(machine: Machine) -> bool:
    devices = machine.path("/sys/bus/pci/devices").glob("*")
    return any(
        (machine.text(f"/sys/bus/pci/devices/{device.name}/vendor") or "").strip() == "0x10de"
        and (machine.text(f"/sys/bus/pci/devices/{device.name}/class") or "").startswith("0x03")
        for device in devices
    )


def _cuda(machine: Machine) -> Iterator[Finding]:
    """The newest CUDA that the driver runs, as its tool's banner says."""
    banner = machine.run(["nvidia-smi"]).output
    _, found, rest = banner.partition("CUDA Version:")
    version = rest.split()[0] if found and rest.split() else ""
    if not version:
        yield unknown(_AREA, "CUDA: nvidia-smi does not name a version")
    elif int(version.split(".")[0]) < 12:
        yield wrong(
            _AREA,
            f"CUDA: the driver runs programs up to {version}, the GPU container needs 12 or later",
            "install a newer driver",
        )
    else:
        yield ok(_AREA, f"CUDA: the driver runs programs up to {version}")


def _gpu(row: Mapping[str, str], *, busy_is_ours: bool) -> Iterator[Finding]:
    who = f"GPU {row['index']} ({row['name']})"
    problems = [*_ecc(who, row), *_memory(who, row, busy_is_ours), *_bus(who, row), *_heat(who, row)]
    yield from problems
    if not problems:
        yield ok(
            _AREA,
            f"{who}: driver {row['driver_version']}, {row['memory.total']} MiB, PCIe x{row['pcie.link.width.current']}",
        )


def _ecc(who: str, row: Mapping[str, str]) -> Iterator[Finding]:
    errors = _number(row, "ecc.errors.uncorrected.volatile.total")
    if errors:
        yield wrong(
            _AREA,
            f"{who}: {errors} memory errors that ECC could not correct since the driver was loaded",
            "drain the node and reset the GPU (nvidia-smi --gpu-reset); if they come back, have it exchanged",
        )


def _memory(who: str, row: Mapping[str, str], busy_is_ours: bool) -> Iterator[Finding]:
    used, total = _number(row, "memory.used"), _number(row, "memory.total")
    if not busy_is_ours and used is not None and total and used > _BUSY_SHARE * total:
        yield advice(
            _AREA,
            f"{who}: {used} of {total} MiB are taken, and no server of this run folder runs",
            "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv   # who has them",
        )


def _bus(who: str, row: Mapping[str, str]) -> Iterator[Finding]:
    now, most = _number(row, "pcie.link.width.current"), _number(row, "pcie.link.width.max")
    if now is not None and most is not None and now < most:
        yield wrong(
            _AREA,
            f"{who}: PCIe x{now} of x{most}: loading, offloading and GPUs that talk over the bus are that much slower",
            "reseat the card or its riser, or look for a slot that shares its lanes; then: nvidia-smi -q -d PCIE",
        )


def _heat(who: str, row: Mapping[str, str]) -> Iterator[Finding]:
    degrees = _number(row, "temperature.gpu")
    if degrees is not None and degrees >= _HOT:
        yield wrong(
            _AREA, f"{who}: {degrees} °C: it slows down", "nvidia-smi -q -d PERFORMANCE   # which limit it runs into"
        )


def _number(row: Mapping[str, str], field: str) -> int | None:
    """None where the GPU does not say: [N/A]."""
    text = row.get(field, "")
    return int(text) if text.isdigit() else None
