"""``.keras``: a zip archive, of which the config and the version are read and nothing else."""

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Final

from parity.scanner.configs import keras as dialect
from parity.scanner.configs.config_file import ConfigFile
from parity.scanner.json_text import JsonText
from parity.scanner.model import Document, Unreadable
from parity.scanner.source import Source

FORMAT: Final = "keras"

LARGEST: Final = 32 << 20
"""Bytes of an entry, unpacked, that are read."""

LARGEST_METADATA: Final = 1 << 16
"""Bytes of the entry with the version that are read."""

MOST_ENTRIES: Final = 100_000
"""Entries of an archive."""

_ZIP: Final = b"PK\x03\x04"


def recognises(path: Path, head: bytes) -> bool:
    """By the name, and by a zip archive whose first entry is Keras's."""
    keras_entry = head.startswith(_ZIP) and b"metadata.json" in head[:60]
    return path.suffix.lower() == ".keras" or keras_entry


def read(source: Source) -> Document:
    """The activation of every layer.

    Raises:
        Unreadable: It is no zip archive, lacks its config, or would unpack to more than `LARGEST` bytes.
    """
    try:
        with zipfile.ZipFile(source.path if source.inline is None else io.BytesIO(source.inline)) as archive:
            if len(archive.filelist) > MOST_ENTRIES:
                raise Unreadable(f"{source.file} has more than {MOST_ENTRIES:,} entries.")
            config = _entry(archive, "config.json", source.file)
            names = {info.filename for info in archive.filelist}
            metadata = _entry(archive, "metadata.json", source.file) if "metadata.json" in names else b"{}"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise Unreadable(f"{source.file} is no .keras archive that can be read: {error}.") from error
    text = JsonText(config, f"config.json in {source.file}")
    return dialect.read(ConfigFile(source.file, source.path, text), _version(metadata))


def _entry(archive: zipfile.ZipFile, name: str, file: str) -> bytes:
    """One entry, unpacked no further than the limit, whatever its header says.

    Raises:
        Unreadable: It is missing or too large.
    """
    try:
        with archive.open(name) as stream:
            data = stream.read(LARGEST + 1)
    except KeyError:
        raise Unreadable(f"{file} holds no {name}, so it is no model of Keras.") from None
    if len(data) > LARGEST:
        raise Unreadable(f"{name} in {file} unpacks to more than {LARGEST >> 20} MB; it is not read further.")
    return data


def _version(metadata: bytes) -> str:
    try:
        found = json.loads(metadata) if len(metadata) <= LARGEST_METADATA else None
    except (ValueError, RecursionError):
        return ""
    version = found.get("keras_version") if isinstance(found, dict) else None
    return version if isinstance(version, str) else ""
