"""``parity doctor`` from end to end."""

import json

CONTRACT = {"schema", "command", "verdict", "summary", "findings", "coverage", "environment"}


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def test_json(parity, offer) -> None:
    offer("lacking", requires="nowhere-to-be-found[extra]>=1")
    code, out, err = parity("doctor", "--format", "json")
    assert (code, err) == (0, "")
    document = json.loads(out, parse_constant=refuse)
    assert set(document) >= CONTRACT
    assert (document["schema"], document["command"], document["verdict"]) == ("framework-parity/1", "doctor", "pass")
    assert document["adapters"]["lacking"]["missing"] == ["nowhere-to-be-found[extra]>=1"]
    assert document["environment"]["adapters"]["numpy"].keys() == {"numpy"}


def test_text(parity, offer) -> None:
    offer("broken", module="raise RuntimeError('never imported here')")
    offer("lacking", requires="nowhere-to-be-found[extra]>=1")
    code, out, err = parity("doctor")
    assert (code, err) == (0, "")
    assert "missing nowhere-to-be-found[extra]>=1" in out
    assert 'pip install "outside-lacking[lacking]"' in out
    assert "never imported" not in out
    assert out.splitlines()[-1].startswith("PASS  ")


def test_quiet(parity) -> None:
    code, out, err = parity("doctor", "--quiet")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert "adapters can be used" in out
