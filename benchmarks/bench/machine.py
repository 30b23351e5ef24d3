"""What a benchmark ran on: processor, memory, system, date and versions."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("labeldp", "numpy", "scipy", "numba", "pyarrow", "scikit-learn", "opendp", "cryptography", "polars")


def machine() -> dict[str, str | int | float]:
    """Processor, cores, memory, system and Python. Nothing that names the machine or its owner."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(_memory() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def today() -> str:
    """The date, in UTC."""
    return datetime.now(UTC).date().isoformat()


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """The installed versions of packages of this environment."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"^model name\s*: (.+)$", lines, re.MULTILINE)
    return found[1].strip() if found else "unknown"


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
