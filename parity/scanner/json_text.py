"""JSON as people write it: read as Python reads it, with the lines of its keys and the keys that stand twice."""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from parity.scanner.model import Unreadable

Path = tuple[str | int, ...]
"""Keys and indices from the root of a JSON document."""

DEEPEST: Final = 200
"""Levels of nesting that are read."""

MOST_PARTS: Final = 2**22
"""Objects, lists and values of a document: each takes tens of bytes once it is read, however short it is written."""

LONGEST_SHOWN: Final = 80
"""Characters of a name or value that a message shows."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]', re.DOTALL)

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_PLAIN_KEY: Final = re.compile(r"[^.\[\]\"\s]+")


class Repeating(dict[str, Any]):
    """An object in which a key stands twice: the last value counts, as for every reader in use.

    Attributes:
        earlier: By key, the values that a later one replaced.
    """

    __slots__ = ("earlier",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.earlier: dict[str, list[Any]] = {}
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                self.earlier.setdefault(key, []).append(seen[key])
            seen[key] = value


class JsonText:
    """One JSON document.

    NaN and infinities are read, as Python's own reader does: `json.dump` writes them in configs.

    Attributes:
        text: As it was written, without a byte order mark.
        value: The same as Python objects; an object with a key that stands twice is a `Repeating`.

    Args:
        data: The bytes of the file.
        file: Its name for messages.

    Raises:
        Unreadable: It is no JSON in a Unicode encoding, nested more than `DEEPEST` deep, or of too many parts.
    """

    def __init__(self, data: bytes, file: str) -> None:
        if parts(data) > MOST_PARTS:
            raise Unreadable(f"{file} has more than {MOST_PARTS:,} parts: it is data and no config.")
        self.text = _decoded(data, file)
        self._seen: dict[Path, int] = {}
        self._unseen = _keys(self.text)
        self._repeats = False
        try:
            self.value = json.loads(self.text, object_pairs_hook=self._object)
        except RecursionError:
            raise Unreadable(f"{file} is nested more than {DEEPEST} levels deep; it is not read further.") from None
        except json.JSONDecodeError as error:
            raise Unreadable(
                f"{file} is no JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
                hint="Mend the file, or leave it out.",
            ) from None
        except ValueError:
            raise Unreadable(f"{file} holds a number of more digits than can be read.") from None
        if _depth(self.value) > DEEPEST:
            raise Unreadable(f"{file} is nested more than {DEEPEST} levels deep; it is not read further.")

    def line(self, path: Path) -> int | None:
        """The line, from 1, on which the last key of ``path`` stands; None where the document has no such key."""
        while path and isinstance(path[-1], int):
            path = path[:-1]
        if not path or not self._has(path):
            return None
        found = re.finditer(rf"{re.escape(json.dumps(path[-1], ensure_ascii=False))}\s*+:", self.text)
        first, second = next(found, None), next(found, None)
        offset = first.start() if first and not second else self._offset(path)
        return None if offset is None else bisect_left(self._breaks, offset) + 1

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        self._repeats = True
        return Repeating(pairs)

    def _has(self, path: Path) -> bool:
        holder = self.value
        for part in path:
            try:
                holder = holder[part]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    @cached_property
    def _breaks(self) -> list[int]:
        """Offsets of the line breaks."""
        return [found.start() for found in re.finditer("\n", self.text)]

    def _offset(self, path: Path) -> int | None:
        """Where a key stands; of one that stands twice, the last. The text is read no further than there."""
        if self._repeats:
            self._seen.update(self._unseen)
        while path not in self._seen and (one := next(self._unseen, None)):
            self._seen[one[0]] = one[1]
        return self._seen.get(path)


def parts(data: bytes) -> int:
    """Objects, lists and values of a JSON text at most, counted without reading it."""
    return sum(map(data.count, (b"{", b"[", b",")))


def shown(path: Path) -> str:
    """A path as it is written for people: ``text_config.layers[2].act``, cut where it is endless."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part[:LONGEST_SHOWN])}]"
    return cut(text, 4 * LONGEST_SHOWN)


def cut(text: str, length: int = LONGEST_SHOWN) -> str:
    """A text without control characters, its middle left out where it is longer than ``length``."""
    short = text if len(text) <= length else f"{text[: length - 20]} … {text[-15:]}"
    return short if short.isprintable() else _CONTROL.sub("·", short)


def _decoded(data: bytes, file: str) -> str:
    encoding = json.detect_encoding(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            f"{file} is no text in {encoding}: the byte at {error.start:,}, on line {line}, fits no character.",
            hint="Save it in UTF-8.",
        ) from None


def _depth(value: Any) -> int:
    """Levels of nesting, counted no further than one more than `DEEPEST`."""
    level = [value]
    for depth in range(DEEPEST + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return depth
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return DEEPEST + 1


def _keys(text: str) -> Iterator[tuple[Path, int]]:
    """Path and offset of every key of a valid document, in its order."""
    path: list[str | int] = []
    key_next = False
    for token in _TOKEN.finditer(text):
        match text[token.start()]:
            case "{":
                path.append("")
                key_next = True
            case "[":
                path.append(0)
                key_next = False
            case "}" | "]":
                path.pop()
                key_next = False
            case ",":
                if isinstance(path[-1], int):
                    path[-1] += 1
                key_next = isinstance(path[-1], str)
            case '"' if key_next:
                path[-1] = json.loads(token.group())
                key_next = False
                yield tuple(path), token.start()
