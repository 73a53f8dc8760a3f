"""Reads keys, written from core/FORMAT.md ("Keys") alone: what read_store.py needs of them."""
import math
import re
import struct

from read_table import (BLOB, INTEGER, KEY_ENCODED, KEY_INTEGER, KEY_TEXT, M64, NULL, REAL, TEXT, Damage,
                        Scan, need, signed)

KEY_BYTES_MAX = 65535
KEY_NAMES = {KEY_INTEGER: "integer", KEY_TEXT: "text", KEY_ENCODED: "encoded"}
FORM_AS_READ, FORM_REAL, FORM_MINUS_ZERO = range(3)
TOKEN = re.compile(r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[(),]|[^\s"'(),]+)""")


def key_cell(key_kind, key):
    """The key as it stands: encoded ones as blobs."""
    need(len(key) <= KEY_BYTES_MAX, "a key of %d bytes" % len(key))
    if key_kind != KEY_INTEGER:
        return TEXT if key_kind == KEY_TEXT else BLOB, key
    need(len(key) == 8, "an integer key of %d bytes, expected 8" % len(key))
    return INTEGER, signed(int.from_bytes(key, "big") ^ (1 << 63))


# ---- declarations ----------------------------------------------------------------------------------

def split_declaration(text):
    """The tokens of each part between the outer commas; inner parentheses and what is in them go."""
    parts, depth = [[]], 0
    for token in TOKEN.findall(text):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            parts.append([])
        elif token not in "()":
            parts[-1].append(token)
    return parts


def affinity_of(type_words):
    """SQLite's rules."""
    words = "".join(type_words).upper()
    if "INT" in words:
        return "INTEGER"
    if any(part in words for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not words or "BLOB" in words:
        return "BLOB"
    return "REAL" if any(part in words for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


ENDS_OF_TYPE = ("HIDDEN", "NOT", "PRIMARY", "COLLATE", "DEFAULT")


def key_columns(declaration):
    """[(name in quotes, affinity)] of the columns of the key, in its order."""
    affinities, key = {}, []
    for part in split_declaration(declaration.decode(errors="replace")):
        need(part, "a declaration with an empty part")
        if part[0] == "PRIMARY":
            key = [token for token in part[2:] if token != ","]
            continue
        ends = [i for i, word in enumerate(part) if word in ENDS_OF_TYPE] + [len(part)]
        affinities[part[0]] = affinity_of(part[1:ends[0]])
        if "PRIMARY" in part:
            key = [part[0]]
    need(all(name in affinities for name in key), "a declaration whose key has no columns")
    return [(name, affinities[name]) for name in key]


# ---- encoded keys ----------------------------------------------------------------------------------

def take_number(scan):
    ordered = int.from_bytes(scan.take(8), "big")
    bits = ordered ^ 1 << 63 if ordered >> 63 else ordered ^ M64
    low = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    need(not math.isnan(low), "a number that is none")
    need(low != 0 or bits == 0, "a zero with a sign")
    if not -2.0 ** 63 <= low < 2.0 ** 63 or low != int(low):
        return REAL, low
    if -2.0 ** 53 < low < 2.0 ** 53:
        return INTEGER, int(low)
    value = int(low) + int.from_bytes(scan.take(2), "big")
    need(value < int(math.nextafter(low, math.inf)), "a number with a nearer double below it")
    return INTEGER, value


def take_marked(scan):
    """A text or blob up to its end mark."""
    found = b""
    while True:
        at = scan.data.find(b"\0", scan.at)
        need(at >= 0, "no end mark")
        found += scan.take(at - scan.at)
        mark = scan.take(2)
        if mark == b"\0\0":
            return found
        need(mark == b"\0\xff", "a zero byte of no meaning")
        found += b"\0"


def decode_key(key, count):
    """[(type, value)] as read."""
    scan, cells = Scan(key), []
    for i in range(count):
        tag = scan.number(1)
        need(tag in (1, 2, 3), "a value of the key with tag %d" % tag)
        if tag == 1:
            cells.append(take_number(scan))
        else:
            cells.append((TEXT if tag == 2 else BLOB, scan.rest() if i + 1 == count else take_marked(scan)))
    need(scan.left() == 0, "%d bytes behind the values of a key" % scan.left())
    return cells


class Keys:
    """Of a store, whose declaration tells what an encoded key consists of."""

    def __init__(self, kind, declaration):
        self.kind, self.affinities = kind, []
        if kind == KEY_ENCODED:
            self.affinities = [affinity for _, affinity in key_columns(declaration)]
            need(self.affinities, "a declaration without a key")
        self.has_forms = any(affinity not in ("REAL", "TEXT") for affinity in self.affinities)

    @staticmethod
    def is_open(cell, affinity):
        """May this integer stand for a real?"""
        return cell[0] == INTEGER and (affinity == "BLOB" or
                                       affinity in ("INTEGER", "NUMERIC") and cell[1] == -1 << 63)

    def forms(self, cells, column):
        none = [FORM_AS_READ] * len(cells)
        if not any(map(self.is_open, cells, self.affinities)) or column[0] == NULL:
            return none
        need(column[0] == BLOB and len(column[1]) == len(cells), "forms that do not fit the key")
        return list(column[1])

    def restore(self, cell, affinity, form):
        if cell[0] == INTEGER and affinity == "REAL":
            need(form == FORM_AS_READ, "the form of a real")
            return REAL, float(cell[1])
        if form == FORM_AS_READ:
            return cell
        need(form <= FORM_MINUS_ZERO and self.is_open(cell, affinity), "a form that does not fit its value")
        need(form == FORM_REAL or cell[1] == 0, "a minus zero that is no zero")
        return REAL, -0.0 if form == FORM_MINUS_ZERO else float(cell[1])

    def row(self, key, columns):
        """The cells of the key, then those of the declared columns."""
        columns = list(columns)
        if self.kind != KEY_ENCODED:
            return [key_cell(self.kind, key)] + columns
        cells = decode_key(key, len(self.affinities))
        forms = self.forms(cells, columns.pop(0) if self.has_forms else (NULL, None))
        return list(map(self.restore, cells, self.affinities, forms)) + columns

    def show(self, key):
        """A key by itself, without its forms."""
        try:
            return decode_key(key, len(self.affinities)) if self.affinities else [key_cell(self.kind, key)]
        except Damage:
            return [(BLOB, key)]
