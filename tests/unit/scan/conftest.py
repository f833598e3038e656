"""Files to scan."""

import json

import pytest

from parity.jobs.scan import scan


@pytest.fixture
def scanned(tmp_path):
    """Scans a config, given as a value or as its text, and gives the report."""

    def run(config, *targets, name="config.json", **options):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(config, bytes):
            path.write_bytes(config)
        else:
            path.write_text(config if isinstance(config, str) else json.dumps(config, indent=1), encoding="utf-8")
        return scan([path], targets, **options)

    return run


@pytest.fixture
def variants(scanned):
    """Likewise, and gives the variants by path."""

    def run(config, **options):
        return {use.path: use.variant for use in scanned(config, **options).activations}

    return run
