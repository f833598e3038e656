"""JSON as people write it: values, lines, keys that stand twice, and what cannot be read."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parity.scanner import json_text
from parity.scanner.json_text import DEEPEST, JsonText, Repeating, cut, shown
from parity.scanner.model import Unreadable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=30,
)


def paths(value, path=()):
    """Every key of a value, by its path."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(key, str):
            yield (*path, key)
        yield from paths(one, (*path, key))


@pytest.mark.parametrize("part", [b"{},", b"[],", b"0,"])
def test_a_text_that_takes_much_memory_once_it_is_read_is_not_read(monkeypatch, part):
    monkeypatch.setattr(json_text, "MOST_PARTS", 1_000)
    with pytest.raises(Unreadable, match="more than 1,000 parts: it is data and no config"):
        JsonText(b"[" + part * 1_000 + b"0]", "x.json")
    assert len(JsonText(b"[" + part * 400 + b"0]", "x.json").value) == 401


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_what_python_wrote_is_read_and_every_key_has_a_line(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    document = JsonText(text.encode("utf-8", errors="surrogatepass" if ascii_only else "strict"), "f")
    assert document.value == value
    lines = text.split("\n")
    for path in paths(value):
        line = document.line(path)
        assert line is not None
        assert json.dumps(path[-1], ensure_ascii=ascii_only) in lines[line - 1]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    try:
        JsonText(data, "f")
    except Unreadable:
        with pytest.raises((ValueError, RecursionError), match=r".*"):
            json.loads(data)


@given(st.text(max_size=100))
def test_any_text_is_read_or_refused(text):
    try:
        document = JsonText(text.encode(), "f")
    except Unreadable:
        with pytest.raises(ValueError, match=r".*"):
            json.loads(text)
    else:
        expected = json.loads(text.removeprefix("\ufeff"))
        assert json.dumps(document.value) == json.dumps(expected)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=8))
def test_of_a_key_that_stands_twice_the_last_counts(pairs):
    text = "{" + ",\n".join(f'"{key}": {value}' for key, value in pairs) + "}"
    document = JsonText(text.encode(), "f")
    assert document.value == dict(pairs)
    if len(dict(pairs)) == len(pairs):
        assert not isinstance(document.value, Repeating)
        return
    for key, value in dict(pairs).items():
        assert [*document.value.earlier.get(key, []), value] == [one for name, one in pairs if name == key]
        assert document.line((key,)) == max(number for number, (name, _) in enumerate(pairs, 1) if name == key)


def test_not_a_number_and_infinities_are_values():
    value = JsonText(b'{"a": NaN, "b": [0.0, Infinity, -Infinity]}', "f").value
    assert math.isnan(value["a"])
    assert value["b"] == [0.0, math.inf, -math.inf]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_every_unicode_encoding_is_read(encoding):
    assert JsonText('{"Ä": 1}'.encode(encoding), "f").value == {"Ä": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f is no JSON: Expecting value at line 1, column 1."),
        (b'{"a": 1,\n "b" 2}', "f is no JSON: Expecting ':' delimiter at line 2, column 6."),
        (b'{"a":\n "\xff"}', "f is no text in utf-8: the byte at 8, on line 2, fits no character."),
        (b"[" * 100_000, f"f is nested more than {DEEPEST} levels deep; it is not read further."),
        (
            b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1),
            f"f is nested more than {DEEPEST} levels deep; it is not read further.",
        ),
        (b'{"a": ' + b"9" * 5_000 + b"}", "f holds a number of more digits than can be read."),
    ],
)
def test_what_cannot_be_read(data, message):
    with pytest.raises(Unreadable) as caught:
        JsonText(data, "f")
    assert caught.value.message == message


def test_the_deepest_nesting_that_is_read():
    assert JsonText(b"[" * DEEPEST + b"]" * DEEPEST, "f").value


def test_megabyte_strings_have_lines_in_no_time():
    long = json.dumps('\\"{[x' * 400_000)
    document = JsonText(f'{{"act": {long},\n"b": {{"act": 1}},\n"c": {{"act": 2}}}}'.encode(), "f")
    assert [document.line(path) for path in (("act",), ("b", "act"), ("c", "act"))] == [1, 2, 3]


def test_lines_of_keys_in_lists_of_escaped_keys_and_of_what_is_absent():
    document = JsonText(b'{"a": [{"k": 1},\n {"k": 2}],\n "x\\u0041": 3}', "f")
    assert document.line(("a", 0, "k")) == 1
    assert document.line(("a", 1, "k")) == 2
    assert document.line(("a", 1)) == 1
    assert document.line(("xA",)) == 3
    assert document.line(("k",)) is None
    assert document.line(("a", 2, "k")) is None
    assert document.line(()) is None


def test_paths_as_they_are_shown():
    assert shown(("text_config", "layers", 2, "act")) == "text_config.layers[2].act"
    assert shown(("a.b", "c")) == '["a.b"].c'
    assert len(shown(("k" * 10_000,))) < 400


def test_texts_are_cut_and_lose_what_moves_the_cursor():
    assert cut("a\x1b[31mb\r\n") == "a·[31mb··"
    assert len(cut("x" * 1000)) <= 80
