"""What an exhaustive measurement has come to, kept on disk, so that it goes on where it was ended.

A file holds the tally of one slice of one implementation, and beside it the key: all that can change a number. A file
that does not fit its key, or is not whole, is never used.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from parity.errors import InputError
from parity.measure.exhaustive import Tally


def default_folder() -> Path:
    """``framework-parity/exhaustive`` in the user's cache folder: that of XDG_CACHE_HOME, else ``~/.cache``."""
    # The XDG specification has relative paths ignored.
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "framework-parity" / "exhaustive"


def prepare(folder: Path) -> None:
    """Makes the folder.

    Raises:
        InputError: It cannot be made, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder for the state of --exhaustive cannot be made: {error}.", hint="Choose another with --state."
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"--state {folder} cannot be written to.", hint="Choose another folder.")


def path_of(folder: Path, key: Mapping[str, Any]) -> Path:
    """The file for that key; another version of a framework has another file, so that environments can take turns."""
    return folder / f"{key['adapter']}-{sha256(_canonical(key)).hexdigest()[:32]}.json"


def load(path: Path, key: Mapping[str, Any]) -> tuple[Tally | None, str]:
    """The tally that was saved, or None, with the reason where there is a file that cannot be used."""
    try:
        document = json.loads(path.read_bytes())
        body = document["body"]
        if document["sha256"] != _digest(body):
            return None, "its checksum is wrong"
        if body["key"] != _plain(key):
            return None, "it is of another measurement"
        return Tally.from_json(body["tally"]), ""
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"it cannot be read: {error.strerror}"
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, "it is damaged"


def save(path: Path, key: Mapping[str, Any], tally: Tally) -> None:
    """Puts the tally in the place of the one before, whole or not at all.

    Raises:
        OSError: The disk is full, or the folder gone.
    """
    body = {"key": dict(key), "tally": tally.to_json()}
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.stem}.", suffix=".tmp", delete=False) as new:
        json.dump({"body": body, "sha256": _digest(body)}, new)
        new.flush()
        os.fsync(new.fileno())
    Path(new.name).replace(path)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(body: Any) -> str:
    return sha256(_canonical(body)).hexdigest()


def _plain(key: Mapping[str, Any]) -> Any:
    return json.loads(_canonical(key))
