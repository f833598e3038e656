"""Fuzzes the readers of `parity scan`: whatever the bytes, they are read or told to be unreadable, in bounded time.

python scripts/fuzz_readers.py READER [FOLDER…] [-max_total_time=300]      in an environment with the group ``fuzz``

READER is one of the names below; folders hold files to begin with, and the first gets what is found. Of archives the
files to begin with are the JSON inside, which is mutated and packed; the archive itself is, where it begins with PK.
"""

import io
import sys
import zipfile
from collections.abc import Callable
from typing import Final

import atheris

with atheris.instrument_imports(include=["parity.scanner", "parity.jobs.scan"]):
    from parity.errors import ParityError
    from parity.jobs.scan import examined
    from parity.scanner.knowledge.targets import target_names
    from parity.scanner.readers import config, exported_program, gguf, keras, onnx, saved_model, tflite
    from parity.scanner.request import ScanRequest
    from parity.scanner.source import Source

READERS: Final = {
    "config": (config, "config.json", ""),
    "keras": (keras, "m.keras", "config.json"),
    "gguf": (gguf, "m.gguf", ""),
    "onnx": (onnx, "m.onnx", ""),
    "tflite": (tflite, "m.tflite", ""),
    "saved_model": (saved_model, "graph.pb", ""),
    "exported_program": (exported_program, "m.pt2", "m/models/model.json"),
}
"""By name: the module, the name of a file, and in an archive the entry that is mutated."""


def _packed(data: bytes, entry: str) -> bytes:
    """An archive with that entry alone."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr(entry, data)
    return archive.getvalue()


def tried(reader: str) -> Callable[[bytes], None]:
    """What is run on each input: the reader, and the rules on what it read."""
    module, name, entry = READERS[reader]
    request = ScanRequest(targets=tuple(target_names()))

    def run(data: bytes) -> None:
        whole = _packed(data, entry) if entry and not data.startswith(b"PK") else data
        try:
            list(examined(module.read(Source.of_bytes(whole, name)), request))
        except (ParityError, RecursionError):  # the scan reports both, and reads on
            return

    return run


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in READERS:
        sys.exit(f"python scripts/fuzz_readers.py READER [FOLDER…], READER one of {', '.join(READERS)}.")
    atheris.Setup([sys.argv[0], "-timeout=20", "-rss_limit_mb=2048", *sys.argv[2:]], tried(sys.argv[1]))
    atheris.Fuzz()
