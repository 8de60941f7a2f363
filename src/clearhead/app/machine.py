"""Versions and machine."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from clearhead import __version__
from clearhead.checkpoint.catalog import cache_folder

PACKAGES = (
    "numpy",
    "safetensors",
    "tokenizers",
    "cyclopts",
    "scikit-learn",
    "huggingface_hub",
    "transformers",
)


def processor() -> str:
    """The processor's name as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, str]:
    """What a bug report needs; no path but the cache's, no user name."""
    found = {
        "clearhead": __version__,
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "processor": f"{processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads",
        "matrix products": f"MKL {'yes' if torch.backends.mkl.is_available() else 'no'}, "
        f"MKL_CBWR={os.environ.get('MKL_CBWR', 'unset')}",
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"cache": str(cache_folder())}
