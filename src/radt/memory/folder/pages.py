"""SQLite's pages without SQLite: every image of them in a database and its log, row by row.

The layout is that of https://www.sqlite.org/fileformat2.html; numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from radt.memory.folder.database import PAGE_BYTES

LEAF = 13  # the first byte of a table's leaf page
LOG_HEADER, FRAME_HEADER = 32, 24
MOST_INSIDE = PAGE_BYTES - 35  # bytes of a record that fit into its leaf
LEAST_INSIDE = (PAGE_BYTES - 12) * 32 // 255 - 23
MOST_CELLS = (PAGE_BYTES - 8) // 6  # of a leaf: a pointer and at least 4 bytes each
WHOLE_NUMBERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # code -> bytes
PARSE_ERRORS = (IndexError, ValueError, struct.error, OverflowError)


class Cell(NamedTuple):
    """Where a row lies: a page image, its place in it, and which images its overflow is in."""

    image: int
    pointer: int
    from_log: bool


class Pages:
    """Every image of every page: those of the database, then those of the log, oldest first."""

    def __init__(self, database: Path) -> None:
        self._database = _bytes_of(database)
        self._log = _bytes_of(database.with_name(f"{database.name}-wal"))
        self._count = -(-len(self._database) // PAGE_BYTES)
        self._frames = max(0, len(self._log) - LOG_HEADER) // (FRAME_HEADER + PAGE_BYTES)
        self._latest = self._committed()  # page number -> frame

    def __len__(self) -> int:
        return self._count + self._frames

    @property
    def logged(self) -> bool:
        """Whether some images are in a log."""
        return self._frames > 0

    def is_current(self, n: int) -> bool:
        """Tell whether an image is the one that SQLite would read for its page."""
        if n < self._count:
            return n + 1 not in self._latest
        return self._latest.get(self._header(n - self._count)[0]) == n - self._count

    def image(self, n: int) -> bytes:
        """Return the bytes of an image; the last one of a cut file is short."""
        if n < self._count:
            return self._database[n * PAGE_BYTES : (n + 1) * PAGE_BYTES].tobytes()
        start = self._frame(n - self._count) + FRAME_HEADER
        return self._log[start : start + PAGE_BYTES].tobytes()

    def page(self, number: int, from_log: bool) -> bytes:
        """Return the image of a page, counted from 1: the log's, where wanted and there is one."""
        if from_log and number in self._latest:
            return self.image(self._count + self._latest[number])
        if not 1 <= number <= self._count:
            raise ValueError(f"there is no page {number}")
        return self.image(number - 1)

    def _committed(self) -> dict[int, int]:
        """Find the latest frame of each page, up to the last commit since the log was begun."""
        headers = [self._header(n) for n in range(self._frames)]
        salts = [self._log[16:24].tobytes(), *(salt for _, _, salt in headers[:1])]
        salt = max(salts, key=[salt for _, _, salt in headers].count)  # others are of older logs
        commits = [n for n, (_, size, theirs) in enumerate(headers) if size and theirs == salt]
        until = commits[-1] + 1 if commits else 0
        return {headers[n][0]: n for n in range(until) if headers[n][2] == salt}

    def _frame(self, n: int) -> int:
        return LOG_HEADER + n * (FRAME_HEADER + PAGE_BYTES)

    def _header(self, n: int) -> tuple[int, int, bytes]:
        """Return the page of a frame, the database's size if it commits, and the log's salt."""
        header = self._log[self._frame(n) :][:16].tobytes()
        return int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big"), header[8:]


def cells(pages: Pages, n: int) -> Iterator[Cell]:
    """List the rows of an image, if it is a table's leaf."""
    image = pages.image(n)
    if len(image) >= 8 and image[0] == LEAF:
        for pointer in range(min(int.from_bytes(image[3:5], "big"), MOST_CELLS)):
            yield Cell(n, pointer, False)
            if pages.logged:
                yield Cell(n, pointer, True)


def record(pages: Pages, cell: Cell) -> tuple[int, list[Any]]:
    """Read one row: its id and its values."""
    image = pages.image(cell.image)
    at = 8 + 2 * cell.pointer
    start = int.from_bytes(image[at : at + 2], "big")
    size, start = _varint(image, start)
    id, start = _varint(image, start)
    if size > len(pages) * PAGE_BYTES:
        raise ValueError("a record is longer than all pages")
    if size <= MOST_INSIDE:
        return id, _values(image[start : start + size])
    inside = LEAST_INSIDE + (size - LEAST_INSIDE) % (PAGE_BYTES - 4)
    inside = inside if inside <= MOST_INSIDE else LEAST_INSIDE
    parts, rest = [image[start : start + inside]], size - inside
    following = int.from_bytes(image[start + inside : start + inside + 4], "big")
    while rest > 0:
        page = pages.page(following, cell.from_log)
        following = int.from_bytes(page[:4], "big")
        parts.append(page[4 : 4 + min(rest, PAGE_BYTES - 4)])
        rest -= PAGE_BYTES - 4
    return id, _values(b"".join(parts))


def _values(record: bytes) -> list[Any]:
    """Decode a record: a header of type codes, then the values."""
    header, at = _varint(record, 0)
    codes = []
    while at < header:
        code, at = _varint(record, at)
        codes.append(code)
    values = []
    for code in codes:
        value, at = _value(record, at, code)
        values.append(value)
    if at != len(record):
        raise ValueError("a record is longer or shorter than its header says")
    return values


def _value(record: bytes, at: int, code: int) -> tuple[Any, int]:
    if code in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[code], at
    if code in WHOLE_NUMBERS:
        end = at + WHOLE_NUMBERS[code]
        return int.from_bytes(record[at:end], "big", signed=True), end
    if code == 7:
        return struct.unpack_from(">d", record, at)[0], at + 8
    if code < 12:
        raise ValueError(f"there is no type {code}")
    end = at + (code - 12) // 2
    return record[at:end].decode() if code % 2 else record[at:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of 1 to 9 bytes; return it and where it ends."""
    value = 0
    for n in range(9):
        byte = data[at + n]
        if n == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + n + 1
    raise AssertionError("the ninth byte ends a number")


def _bytes_of(path: Path) -> NDArray[np.uint8]:
    """Map a file into memory; one that is empty or missing has no bytes."""
    if not path.is_file() or not path.stat().st_size:
        return np.zeros(0, np.uint8)
    return np.memmap(path, np.uint8, mode="r")
