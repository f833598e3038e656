"""``parity.scan``: files and folders are read, a live model is run and probed."""

import os
from typing import Any

from parity.jobs.scan import ScanReport
from parity.jobs.scan import scan as scan_files
from parity.jobs.scan_live import scan_live


def scan(what: Any, *arguments: Any, **options: Any) -> ScanReport:
    """`parity.jobs.scan.scan` for files and folders, `parity.jobs.scan_live.scan_live` for a live model.

    Args:
        what: A path, or several; else a model.
        arguments: As that function takes them.
        options: Likewise.

    Raises:
        InputError: A target is not known, or it is no such model.
        EngineError: The model failed inside its framework.
    """
    if isinstance(what, str | os.PathLike | list | tuple):
        return scan_files(what, *arguments, **options)
    return scan_live(what, *arguments, **options)
