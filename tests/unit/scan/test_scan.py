"""The job: which files are read, what becomes of those that cannot be, verdicts; the command and its formats."""

import io
import json
import os
import subprocess
import sys
import time
from threading import Thread
from types import SimpleNamespace

import pytest

from parity.jobs.scan import scan
from parity.scanner.model import ActivationUse, Document, Unreadable
from parity.scanner.rules import against
from parity.scanner.source import Source

BERT = {"model_type": "distilbert", "activation": "gelu"}


@pytest.fixture
def folder(tmp_path):
    """Some files of a repository."""
    for name, content in {
        "a/config.json": json.dumps(BERT),
        "b/config.json": json.dumps(BERT | {"activation": "relu"}),
        "b/tokenizer.json": "not even JSON",
        "b/readme.md": "# gelu",
        "node_modules/x/config.json": "{",
        ".git/config.json": "{",
        "c/other.json": json.dumps({"x": 1}),
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def test_a_folder_is_walked(folder):
    report = scan(folder)
    assert [(use.file.removeprefix(str(folder)), use.variant) for use in report.activations] == [
        ("/a/config.json", "gelu_erf"),
        ("/b/config.json", "relu"),
    ]
    assert report.verdict == "pass"
    assert report.coverage["files"] == {"config": 3}
    assert report.coverage["without_activation"] == [str(folder / "c/other.json")]
    assert sum(report.coverage["left_out"].values()) == 1


def test_one_bad_file_does_not_keep_the_others_from_being_read(folder):
    (folder / "a/broken.json").write_bytes(b'{"a": \xff}')
    (folder / "deep.json").write_bytes(b"[" * 10_000)
    report = scan(folder)
    assert len(report.activations) == 2
    assert [one["file"] for one in report.coverage["unreadable"]] == [
        str(folder / "deep.json"),
        str(folder / "a/broken.json"),
    ]
    assert (report.verdict, report.exit_code) == ("error", 2)


def test_a_bad_file_and_a_mismatch(folder):
    (folder / "broken.json").write_text("{")
    report = scan(folder, ["optimum-o3"])
    assert (report.verdict, report.exit_code) == ("mismatch", 2)


def test_links_in_a_circle_are_not_followed(folder):
    (folder / "a/loop").symlink_to(folder, target_is_directory=True)
    assert len(scan(folder).activations) == 2


@pytest.mark.parametrize("name", ["nothing.json", "a"])
def test_nothing_to_read(tmp_path, name):
    (tmp_path / "a").mkdir()
    report = scan(tmp_path / name)
    assert report.verdict == ("error" if name == "nothing.json" else "inconclusive")
    assert report.exit_code == (2 if name == "nothing.json" else None)


def test_a_file_of_no_known_format(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"\x80\x04")
    report = scan(tmp_path / "x.bin")
    assert report.exit_code == 2
    assert "no format that can be read" in report.coverage["unreadable"][0]["message"]


def test_a_config_of_any_name_is_known_by_its_first_character(tmp_path):
    path = tmp_path / "config"
    path.write_text("\n " + json.dumps(BERT))
    assert [use.variant for use in scan(path).activations] == ["gelu_erf"]


def graph(*variants):
    uses = [
        ActivationUse(file="m.onnx", path=f"n{index}", field="Gelu", value=None, variant=variant, basis="graph")
        for index, variant in enumerate(variants)
    ]
    return Document(file="m.onnx", format="onnx", activations=tuple(uses))


def config(*variants):
    uses = [
        ActivationUse(file="config.json", path="hidden_act", field="", value="gelu", variant=variant, basis="config")
        for variant in variants
    ]
    return Document(file="config.json", format="config", activations=tuple(uses))


@pytest.mark.parametrize(
    ("said", "found", "compared", "severities"),
    [
        (["gelu_erf"], ["gelu_erf", "gelu_erf", "tanh"], 1, []),
        (["gelu_erf"], ["gelu_tanh", "gelu_tanh"], 1, ["error"]),
        (["gelu_erf"], ["gelu_tanh", "gelu_tanh", "gelu_erf"], 1, ["error"]),
        (["gelu_erf"], ["gelu_erf", "relu", "tanh"], 1, ["warning"]),
        (["gelu_erf", "quick_gelu"], ["gelu_erf", "quick_gelu"], 2, []),
        (["gelu_erf", "relu"], ["gelu_erf"], 2, ["warning"]),
        (["swiglu"], ["silu"], 1, []),
        (["gelu_tanh"], ["geglu_tanh"], 1, []),
        (["gelu_erf", "tanh"], ["gelu_erf"], 1, []),
        (["gelu_erf"], [], 0, []),
        ([None], ["gelu_erf"], 0, []),
        (["gelu_erf"], [None], 0, []),
    ],
)
def test_a_config_against_a_graph(said, found, compared, severities):
    number, findings = against.compare([config(*said)], [graph(*found)])
    assert number == compared
    assert [one.severity for one in findings] == severities
    for one in findings:
        assert one.rule == "activation-variant"
    if severities == ["error"]:
        assert findings[0].observed == "gelu_tanh"
        assert "in n0 and 1 more" in findings[0].message


def test_the_command(parity, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BERT, indent=1))
    code, out, err = parity("scan", path, "--target", "vllm", "--target", "trt-llm")
    assert (code, err) == (1, "")
    assert "target-differs" in out
    assert f"{path}:3" in out
    code, out, err = parity("scan", path, "--quiet")
    assert (code, out, err) == (0, "1 activation in 1 file.\n", "")


def test_json(parity, tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "distilbert",\n "activation": NaN}')
    code, out, _ = parity("scan", path, "--format", "json", "--target", "openvino")
    report = json.loads(out)
    assert code == 0
    assert (report["schema"], report["command"], report["verdict"]) == ("framework-parity/1", "scan", "pass")
    (row,) = report["activations"]
    assert {"file", "path", "field", "value", "variant", "basis"} <= row.keys()
    assert (row["path"], row["field"], row["value"], row["variant"], row["line"]) == (
        "activation",
        "activation",
        "nan",
        None,
        2,
    )
    assert report["findings"][0]["location"] == {"file": str(path), "path": "activation", "line": 2}
    assert report["targets"][0]["answer"]["status"] == "unknown"


def test_sarif(parity, tmp_path):
    path = tmp_path / "my config.json"
    path.write_text('{"model_type": "gpt_oss",\n "hidden_act": "silu"}')
    (tmp_path / "broken.json").write_text("{")
    code, out, err = parity("scan", tmp_path, "--format", "sarif")
    assert code == 2
    assert "broken.json is no JSON" in err
    report = json.loads(out)
    assert report["version"] == "2.1.0"
    (run,) = report["runs"]
    known = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first, second = run["results"]
    assert (first["ruleId"], first["level"]) == ("config-ignored-field", "warning")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("/my%20config.json")
    assert place["region"] == {"startLine": 2}
    assert second["ruleId"] == "unreadable"
    assert [known[one["ruleIndex"]] for one in run["results"]] == ["config-ignored-field", "unreadable"]


def test_standard_input(parity, monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    give(json.dumps(BERT).encode())
    code, out, _ = parity("scan", "-")
    assert code == 0
    assert "gelu_erf" in out
    give(b"")
    code, _, err = parity("scan", "-")
    assert (code, err) == (2, "parity: Standard input is empty.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "missing.json cannot be read: No such file or directory."),
        (["x.json", "--target", "nope"], "There is no target called 'nope'."),
        (["x.json", "--library", "vllm=1"], "Of 'vllm' no versions are known, only those of transformers."),
        (["/dev/null"], "/dev/null is a device or a socket and no file."),
        (["x.json", "--library", "transformers"], "--library transformers is not of the form NAME=VERSION."),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_used(parity, arguments, said):
    code, out, err = parity("scan", *arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert "activation" not in out or "0 activations" in out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        ("config.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        ("model.onnx", b"", "is empty"),
        ("model.gguf", b"", "is empty"),
    ],
)
def test_a_file_that_is_not_there_yet_says_how_to_get_it(parity, tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    code, _, err = parity("scan", tmp_path)
    assert code == 2
    assert said in err


def test_pipes_are_read_where_somebody_writes_and_never_waited_for(parity, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    code, out, _ = parity("scan", tmp_path)
    assert (code, "1 activation in 1 file" in out) == (0, True)
    code, _, err = parity("scan", pipe)
    assert (code, "to which nobody writes" in err) == (2, True)
    writer = os.open(pipe, os.O_RDWR)
    content = json.dumps(BERT | {"padding": "x" * 10_000}).encode()
    os.write(writer, content)
    Thread(target=lambda: (time.sleep(0.5), os.close(writer))).start()
    code, out, _ = parity("scan", pipe)
    assert (code, "gelu_erf" in out) == (0, True)


def test_a_file_that_shrinks_or_goes_while_it_is_read_ends_no_scan(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x3a" * 100_000)
    source = Source.of_file(str(path))
    program = (
        "import os, sys\nfrom parity.scanner.source import Source\n"
        f"buffer = Source.of_file({str(path)!r}).mapped()\nos.truncate({str(path)!r}, 10)\nprint(sum(buffer))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"{0x3A * 100_000}\n")
    path.unlink()
    with pytest.raises(Unreadable, match="cannot be read"):
        source.mapped()


def test_no_activation_at_all_is_said(parity, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    code, out, _ = parity("scan", tmp_path)
    assert (code, out) == (0, "PASS  No activation in 1 file.\n")


def test_many_files_that_say_the_same_share_a_table(parity, tmp_path):
    for number in range(200):
        path = tmp_path / f"{number:03}.json"
        path.write_text(json.dumps(BERT | {"activation": "gelu" if number % 50 else "relu"}))
    code, out, _ = parity("scan", tmp_path)
    assert code == 0
    assert "196 files" in out
    assert len(out.splitlines()) < 20


def test_hostile_names_and_values_are_shown_without_control_characters(parity, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"\x1b[2Jhidden_act": "gelu", "hidden_act": "\x1b]0;x\x07gelu" + "y" * 10_000}))
    code, out, _ = parity("scan", path)
    assert code == 0
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) < 400


def test_a_scan_of_a_config_loads_no_framework_and_no_numpy(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BERT))
    program = (
        "import sys\nfrom parity.cli import main\n"
        f"sys.argv = ['parity', 'scan', {str(path)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'torch', 'onnx', 'tensorflow', 'jax', 'transformers', 'rich', 'parity_adapters'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_the_package_is_the_function_of_its_name(tmp_path):
    import parity
    import parity.scanner.model as again

    path = tmp_path / "config.json"
    path.write_text(json.dumps(BERT))
    assert [use.variant for use in parity.scan(path).activations] == ["gelu_erf"]
    assert again.Document is Document
