"""``parity.doctor``: the state of the installation."""

from parity.jobs.doctor import doctor


def test_what_is_ready_and_what_lacks(offer) -> None:
    offer("whole")
    offer("lacking", requires="nowhere-to-be-found>=1")
    report = doctor()
    assert report.verdict == "pass"
    assert "whole" in report.coverage["adapters"]
    assert "lacking" not in report.coverage["adapters"]
    (finding,) = [one for one in report.findings if one.location.get("candidate") == "lacking"]
    assert (finding.severity, finding.fix) == ("note", 'pip install "outside-lacking[lacking]"')
    assert "nowhere-to-be-found>=1" in finding.message
    assert report.summary.startswith(
        f"{len(report.adapters) - sum(bool(one.missing) for one in report.adapters.values())} of"
    )
    assert report.environment["threads"] >= 1


def test_clashes_are_warnings(monkeypatch) -> None:
    monkeypatch.setattr("parity.jobs.doctor.name_clashes", lambda: ["two of a name"])
    assert [one.message for one in doctor().findings if one.severity == "warning"] == ["two of a name"]


def test_nothing_usable_is_inconclusive(monkeypatch) -> None:
    monkeypatch.setattr("parity.jobs.doctor.adapter_statuses", dict)
    report = doctor()
    assert report.verdict == "inconclusive"
    assert report.summary == "0 of 0 adapters can be used: none."
