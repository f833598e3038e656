"""What the user asked of a scan."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Options of a scan.

    Attributes:
        targets: Deployment targets to ask about, by their own names.
        strict: Whether warnings count as errors.
        measure: Whether what is known of a target is checked by running it where it is installed.
        versions: By library, the version that is going to run the models; the newest known where there is none.
    """

    targets: tuple[str, ...] = ()
    strict: bool = False
    measure: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
