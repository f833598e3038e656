"""Compiles the optional native kernel of `parity.compare` into the wheel, if there is a C compiler.

Without one, or with ``PARITY_NO_NATIVE=1``, the wheel is pure Python and `compare` uses NumPy throughout.
"""

import os
import shlex
import shutil
import subprocess
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "parity/compare/native.c"
LIBRARY = "parity/compare/libnative.so"
FLAGS = ("-std=c11", "-O3", "-fno-math-errno", "-ffp-contract=off", "-fopenmp-simd", "-fPIC", "-shared")


class NativeKernel(BuildHookInterface[Any]):
    """Adds the library to wheels, editable ones too, where it lies beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 – the interface
        """Compiles; on success the wheel is bound to this platform, but to no version of Python."""
        root = Path(self.root)
        fresh = root / f"{LIBRARY}.{os.getpid()}"
        failure = compile_library(root / SOURCE, fresh)
        if failure:
            (root / LIBRARY).unlink(missing_ok=True)
            self.app.display_warning(f"parity: no native kernel ({failure}); compare() will use NumPy.")
            return
        fresh.replace(root / LIBRARY)  # whole or not at all: a process may be about to load it
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append(LIBRARY)
        build_data.update(pure_python=False, tag=f"py3-none-{platform}")


def compile_library(source: Path, library: Path) -> str | None:
    """Compiles ``source`` to ``library``, in the place of an older one; returns why not if it fails."""
    chosen = shlex.split(os.environ.get("CC", ""))
    compiler = chosen or [found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))][:1]
    checksum = f"-DPARITY_SOURCE={zlib.crc32(source.read_bytes())}u"
    try:
        library.unlink(missing_ok=True)
        if os.environ.get("PARITY_NO_NATIVE"):
            return "PARITY_NO_NATIVE is set"
        if not compiler:
            return "no C compiler"
        command = [*compiler, *FLAGS, checksum, str(source), "-o", str(library)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    except OSError as error:
        return str(error)
    return f"{compiler[0]} failed: {done.stderr.strip()[:300]}" if done.returncode else None
