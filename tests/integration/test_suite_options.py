"""``parity suite --exhaustive`` and ``--timing``, through worker processes."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from importlib.metadata import version

import numpy as np
import pytest

from parity.errors import InputError
from parity.jobs import exhaustive
from parity.jobs.exhaustive import Exhaustive
from parity.jobs.suite import suite
from parity.measure.timing import REPEATS, SIZES, TimingRow
from parity.report.suite import render

ONE = 0x3F80_0000  # the bit pattern of 1.0

SILU = "x/(1+np.exp(-x))"

SETTINGS = Exhaustive(start=ONE, stop=ONE + 2**19, slices=2, chunk=2**13, save_every=0.0)

CRASHING = """
import os, signal
import numpy as np
from parity.adapter import Implementation
from parity.functions import variant

FATAL = np.uint32({fatal})

def relu(x):
    if (x.view(np.uint32) == FATAL).any():
        {end}
    return np.maximum(x, 0)

class Crashing:
    name = "crashing"
    def versions(self): return {{"crashing": "1.0"}}
    def activations(self):
        same = lambda x: x
        yield Implementation(
            name="relu", variant=variant("relu"), dtypes=("float32",), enter=same, function=relu, leave=same
        )
    def enter(self, x): return x
    def leave(self, native): return native
    def open(self, model, options): raise NotImplementedError

adapter = Crashing()
"""


def exhaustive_row(report):
    (row,) = [row for row in report.results if row.dtype == "float32" and row.regime == "all"]
    return row


def measure(settings: Exhaustive, **options):
    filters = {"adapters": ["numpy"], "implementations": [SILU], "dtypes": ["float32"]}
    return suite(**filters | options, exhaustive=settings)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return measure(replace(SETTINGS, state=tmp_path_factory.mktemp("state")))


def test_the_row_has_the_numbers_of_every_input(uninterrupted):
    row = exhaustive_row(uninterrupted)
    assert (row.adapter, row.implementation, row.declared, row.identified) == ("numpy", SILU, "silu", "silu")
    assert (row.count, row.exhaustive, row.nonfinite) == (2**19, False, 0)
    assert 0.5 <= row.max_ulp <= 3
    assert 0.1 < row.mean_ulp < 1
    assert row.gradient_max_abs is None


def test_killed_in_the_middle_it_goes_on_to_the_same_numbers(uninterrupted, tmp_path, monkeypatch):
    program = (
        "from pathlib import Path; from parity.jobs.exhaustive import Exhaustive; from parity.jobs.suite import suite\n"
        f"settings = Exhaustive(state=Path({str(tmp_path)!r}), start={SETTINGS.start}, stop={SETTINGS.stop},\n"
        f"                      slices={SETTINGS.slices}, chunk={SETTINGS.chunk}, save_every=0.0)\n"
        f"suite(adapters=['numpy'], implementations=[{SILU!r}], dtypes=['float32'], exhaustive=settings, parallel=1)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        while not list(tmp_path.glob("*.json")):
            assert process.poll() is None
            time.sleep(0.001)
    finally:
        process.kill()
    assert process.wait() == -signal.SIGKILL
    kept = [json.loads(path.read_text())["body"]["tally"]["comparison"]["count"] for path in tmp_path.glob("*.json")]
    assert 0 < sum(kept) < 2**19

    asked = spied(monkeypatch)
    report = measure(replace(SETTINGS, state=tmp_path))
    assert sorted(one["tally"]["comparison"]["count"] for one in asked if one["tally"]) == sorted(
        count for count in kept if count < 2**18
    )
    assert exhaustive_row(report) == exhaustive_row(uninterrupted)
    assert report.findings == uninterrupted.findings


def spied(monkeypatch):
    """What the workers of exhaustive measurements are asked from now on."""
    asked = []

    class Spy(exhaustive.Worker):
        def call(self, job, arguments, arrays=None):
            asked.append(arguments)
            return super().call(job, arguments, arrays)

    monkeypatch.setattr(exhaustive, "Worker", Spy)
    return asked


def test_a_finished_measurement_is_not_repeated(uninterrupted, tmp_path, monkeypatch):
    settings = replace(SETTINGS, state=tmp_path, stop=ONE + 2**16)
    asked = spied(monkeypatch)
    first = measure(settings)
    assert len(asked) == 2
    again = measure(settings)
    assert len(asked) == 2
    assert exhaustive_row(again) == exhaustive_row(first)


def test_a_measurement_under_another_key_is_not_reused(tmp_path, monkeypatch):
    settings = replace(SETTINGS, state=tmp_path, stop=ONE + 2**14, slices=1)
    asked = spied(monkeypatch)
    measure(settings)
    (path,) = tmp_path.glob("*.json")
    key = json.loads(path.read_text())["body"]["key"]
    assert key["versions"]["numpy"] == np.__version__
    assert key["parity"] == version("framework-parity")
    own_key = exhaustive._key
    versions = {"numpy": "2.0.0"}
    monkeypatch.setattr(exhaustive, "_key", lambda *arguments: own_key(*arguments) | {"versions": versions})
    assert not any("saved state" in finding.message for finding in measure(settings).findings)
    assert len(asked) == 2
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_a_damaged_state_is_told_and_not_used(uninterrupted, tmp_path):
    settings = replace(SETTINGS, state=tmp_path)
    measure(settings)
    first, second = sorted(tmp_path.glob("*.json"))
    first.write_bytes(first.read_bytes()[:-100])
    foreign = second.read_bytes()
    second.write_bytes(foreign.replace(b'"finite_count": ', b'"finite_count": 1'))
    report = measure(settings)
    notes = [finding for finding in report.findings if finding.rule == "unexplained"]
    assert {finding.severity for finding in notes} == {"note"}
    said = "\n".join(finding.message for finding in notes)
    assert f"{first} was not used, since it is damaged" in said
    assert f"{second} was not used, since its checksum is wrong" in said
    assert exhaustive_row(report) == exhaustive_row(uninterrupted)


@pytest.fixture
def crashing(tmp_path, monkeypatch):
    """Installs an adapter whose relu ends in the way it is told at one input, which no other regime holds."""

    def install(end: str, at: int) -> None:
        folder = tmp_path / "site"
        info = folder / "crashing-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / "crashing_adapter.py").write_text(CRASHING.format(end=end, fatal=at))
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[parity.adapters]\ncrashing = crashing_adapter:adapter\n")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return install


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "was killed by SIGKILL"),
        ("raise RuntimeError('no such kernel')", "failed", "RuntimeError: no such kernel"),
    ],
)
def test_a_crash_in_the_middle_is_a_row(crashing, tmp_path, end, status, said):
    fatal = ONE + 2**13 * 40 + 77
    crashing(end, fatal)
    report = measure(replace(SETTINGS, state=tmp_path / "state"), adapters=["crashing"], implementations=["relu"])
    row = exhaustive_row(report)
    assert row.status == status
    assert said in row.reason
    assert f"bit patterns {ONE + 2**13 * 40:#010x} to {ONE + 2**13 * 41 - 1:#010x}" in row.reason
    assert (row.count, row.max_ulp) == (0, None)
    assert report.verdict == "error"
    assert {other.status for other in report.results if other.regime == "dense"} == {"pass"}
    (finding,) = [finding for finding in report.findings if finding.rule == "unexplained"]
    assert finding.evidence["status"] == status
    # What was done before is kept for the next run.
    counts = [
        json.loads(path.read_text())["body"]["tally"]["comparison"]["count"]
        for path in (tmp_path / "state").glob("*.json")
    ]
    assert sorted(counts) == [2**13 * 8, 2**18]


def test_a_fault_that_only_all_inputs_show_is_found(crashing, tmp_path):
    crashing("return np.where(x.view(np.uint32) == FATAL, np.float32(np.nan), np.maximum(x, 0))", ONE + 98_765)
    report = measure(replace(SETTINGS, state=tmp_path / "state"), adapters=["crashing"], implementations=["relu"])
    assert report.verdict == "mismatch"
    assert exhaustive_row(report).status == "mismatch"
    (finding,) = [finding for finding in report.findings if finding.severity == "error"]
    assert finding.rule == "overflow"
    assert "is not finite at x = 1.01177" in finding.message


def test_gated_variants_have_no_exhaustive_measurement(tmp_path):
    name = "value*gate/(1+np.exp(-gate))"
    row = exhaustive_row(measure(replace(SETTINGS, state=tmp_path), implementations=[name]))
    assert (row.status, row.count) == ("unsupported", 0)
    assert "2^64" in row.reason


def test_all_implementations_at_once_are_refused_with_the_cost():
    with pytest.raises(InputError, match=r"on \d\d implementations, .* hours") as caught:
        measure(SETTINGS, implementations=[])
    assert "--implementation" in caught.value.hint


def test_float32_filtered_out_is_bad_input():
    with pytest.raises(InputError, match="--dtype leaves out"):
        measure(SETTINGS, dtypes=["float16"])


def parity(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "parity", "suite", "--adapter", "numpy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_line_measures_and_times(tmp_path):
    output = tmp_path / "suite.json"
    patterns = ("--patterns", str(ONE), str(ONE + 2**14))
    chosen = ("--variant", "relu", "--dtype", "float32")
    done = parity(*chosen, "--exhaustive", *patterns, "--state", str(tmp_path / "new" / "state"), "--timing",
                  "--format", "json", "--output", str(output))  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text())
    (row,) = [row for row in document["results"] if row["regime"] == "all"]
    assert (row["implementation"], row["dtype"], row["count"]) == ("np.maximum(x,0)", "float32", 2**14)
    assert len(list((tmp_path / "new" / "state").iterdir())) == 1
    fields = {
        "adapter",
        "implementation",
        "dtype",
        "size",
        "ns_per_element",
        "ratio_to_gelu",
        "ratio_to_relu",
        "repeats",
    }
    assert [set(row) for row in document["timing"]] == [fields] * len(SIZES)
    for row, size in zip(document["timing"], SIZES, strict=True):
        assert (row["adapter"], row["implementation"], row["size"]) == ("numpy", "np.maximum(x,0)", size)
        assert 1 <= row["repeats"] <= REPEATS
        assert row["ns_per_element"] > 0
        assert row["ratio_to_relu"] == 1.0
        assert 0 < row["ratio_to_gelu"] < 1


def test_the_text_report_has_both_tables(uninterrupted):
    row = TimingRow(
        adapter="numpy",
        implementation=SILU,
        dtype="float32",
        size=1_048_576,
        ns_per_element=12.34,
        ratio_to_gelu=0.5,
        ratio_to_relu=321.0,
        repeats=2,
    )
    text = render(replace(uninterrupted, timing=(row,)), colour=False, width=160, everything=False)
    assert "Every float32 input" in text
    assert re.search(rf"numpy: {re.escape(SILU)} +524,288 ", text)
    assert "numpy: ns an element on one thread" in text
    assert re.search(rf"{re.escape(SILU)} +float32 +12 \(0\.5, 321\)", text)
    assert "1 of 1 times are medians of 2 to" in text
    plain = render(suite_without_options(), colour=False, width=160, everything=False)
    assert "Every float32 input" not in plain
    assert "ns an element" not in plain


def test_without_a_filter_the_command_line_ends_with_2():
    done = parity("--exhaustive")
    assert (done.returncode, done.stdout) == (2, "")
    assert "hours" in done.stderr
    assert "Traceback" not in done.stderr


def test_state_without_exhaustive_is_bad_usage(tmp_path):
    done = parity("--state", str(tmp_path))
    assert done.returncode == 2
    assert "--exhaustive" in done.stderr


@cache
def suite_without_options():
    return suite(adapters=["numpy"], variants=["identity"], dtypes=["float32"])


def test_without_the_options_there_is_no_timing():
    report = suite_without_options()
    assert report.timing == ()
    assert not any(row.regime == "all" for row in report.results)
