"""Figures of this process and its machine, from the operating system."""

import os
import platform
import resource
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

from bson import Int64

_MEGABYTE: Final = 1 << 20


def host_name() -> str:
    return socket.gethostname()


def resident_megabytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // _MEGABYTE
    except (OSError, ValueError, IndexError):
        # Other systems than Linux have only the largest use so far; macOS counts bytes, others kilobytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // _MEGABYTE if sys.platform == "darwin" else peak // 1024


def virtual_megabytes() -> int:
    """Mapped address space of this process; 0 where the system has no figure."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") // _MEGABYTE
    except (OSError, ValueError, IndexError):
        return 0


def machine_megabytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MEGABYTE


def processor_seconds() -> tuple[float, float]:
    """User and system time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime, usage.ru_stime


def resource_use() -> dict[str, int]:
    """What the operating system counts of this process, as serverStatus shows it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "maximum_resident_set_kb": usage.ru_maxrss,
        "input_blocks": usage.ru_inblock,
        "output_blocks": usage.ru_oublock,
        "page_reclaims": usage.ru_minflt,
        "page_faults": usage.ru_majflt,
        "voluntary_context_switches": usage.ru_nvcsw,
        "involuntary_context_switches": usage.ru_nivcsw,
        "threads": threading.active_count(),
    }


def system() -> dict[str, Any]:
    """The machine, as hostInfo describes it."""
    return {
        "hostname": host_name(),
        "cpuAddrSize": sys.maxsize.bit_length() + 1,
        "memSizeMB": Int64(machine_megabytes()),
        "memLimitMB": Int64(machine_megabytes()),
        "numCores": os.cpu_count() or 1,
        "numCoresAvailableToProcess": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else -1,
        "cpuArch": platform.machine(),
        "numaEnabled": False,
    }


def operating_system() -> dict[str, Any]:
    """The operating system, as hostInfo describes it."""
    return {"type": platform.system(), "name": platform.platform(), "version": platform.release()}
