#!/usr/bin/python3
"""Reads table files, written from core/FORMAT.md alone: a second pair of eyes for what C wrote.

    read_table.py FILE...          verifies all; prints rows, tombstones, distinct ids of each file
    read_table.py --dump FILE...   prints the versions as well

Exit status 1 and the reason on the first rule that a file breaks; 77 when python3-xxhash or
python3-zstandard are not installed.
"""
import math
import os
import re
import struct
import sys

try:
    import xxhash
    import zstandard
except ImportError as missing:
    print("%s: install python3-xxhash, python3-zstandard" % missing, file=sys.stderr)
    sys.exit(77)

HEADER_BYTES, FOOTER_BYTES = 56, 48
NULL, INTEGER, REAL, TEXT, BLOB = range(5)
KEY_INTEGER, KEY_TEXT, KEY_ENCODED = 1, 2, 3
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D,
         0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
M64 = (1 << 64) - 1


class Damage(Exception):
    pass


def need(condition, words):
    if not condition:
        raise Damage(words)


class Scan:
    """Takes fields from bytes, one behind the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        need(size <= len(self.data) - self.at, "a field passes the end of its block")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, width):
        return int.from_bytes(self.take(width), "little")

    def varint(self):
        value = 0
        for i in range(10):
            byte = self.number(1)
            value |= (byte & 127) << 7 * i
            if byte < 128:
                need(value <= M64, "a varint of more than 64 bits")
                return value
        raise Damage("a varint of more than 10 bytes")

    def bytes(self):
        return self.take(self.varint())

    def left(self):
        return len(self.data) - self.at

    def ahead(self):
        need(self.left(), "nothing where an encoding should stand")
        return self.data[self.at]

    def rest(self):
        return self.take(self.left())


def signed(value):
    value &= M64
    return value - (1 << 64) if value >> 63 else value


def take_numbers(scan, count):
    bits = scan.number(1)
    need(bits <= 64, "numbers of more than 64 bits")
    packed = int.from_bytes(scan.take((count * bits + 7) // 8), "little")
    need(packed >> count * bits == 0, "a spare bit is set")
    digits = [packed >> bits * i & ((1 << bits) - 1) for i in range(count)] if bits else [0] * count
    return digits


def take_range(scan, count):
    scale, least = scan.varint(), scan.number(8)
    return [signed(least + scale * number) for number in take_numbers(scan, count)]


def take_integers(scan, count):
    encoding = scan.number(1)
    if encoding == 2:
        return take_range(scan, count)
    need(encoding == 3, "integers of an unknown encoding")
    values = [signed(scan.number(8))]
    for delta in take_range(scan, count - 1):
        values.append(signed(values[-1] + delta))
    return values


def take_reals(scan, count):
    encoding = scan.number(1)
    if encoding == 4:
        values = take_range(scan, count)
        return list(struct.unpack("<%dd" % count, struct.pack("<%dq" % count, *values)))
    digits = scan.number(1)
    need(encoding == 8 and digits <= 15, "reals of an unknown encoding")
    return [float(value) / float(10 ** digits) for value in take_integers(scan, count)]


def take_lengths(scan, count):
    least = scan.number(4)
    return [least + number for number in take_numbers(scan, count)]


def take_byte_values(scan, count):
    values = [scan.take(length) for length in take_lengths(scan, count)]
    need(scan.left() == 0, "bytes are left behind a page")
    return values


def take_sharing(scan, count):
    kind = scan.number(1)
    need(kind in (TEXT, BLOB), "neither texts nor blobs share")
    lengths, shared = take_lengths(scan, count), take_lengths(scan, count)
    need(sum(lengths) <= (32768 if count > 1 else 2**30), "values longer than allowed")
    values = [b""]
    for length, common in zip(lengths, shared):
        need(common <= min(length, len(values[-1])), "a value shares more than there is")
        values.append(values[-1][:common] + scan.take(length - common))
    return [(kind, value) for value in values[1:]]


def take_constant(scan):
    kind = scan.number(1)
    need(kind <= BLOB, "a constant of unknown type")
    if kind == NULL:
        return kind, None
    if kind == INTEGER:
        return kind, signed(scan.number(8))
    if kind == REAL:
        return kind, struct.unpack("<d", scan.take(8))[0]
    return kind, scan.rest()


def take_mixed(scan, count):
    seen = scan.number(1)
    need(seen < 32, "a value of unknown type")
    present = [kind for kind in range(5) if seen >> kind & 1]
    codes = take_numbers(scan, count)
    need(all(code < len(present) for code in codes), "a type that is not announced")
    kinds = [present[code] for code in codes]
    values = {NULL: iter([None] * count)}
    if INTEGER in kinds:
        values[INTEGER] = iter(take_integers(scan, kinds.count(INTEGER)))
    if REAL in kinds:
        values[REAL] = iter(take_reals(scan, kinds.count(REAL)))
    if TEXT in kinds or BLOB in kinds:
        count = kinds.count(TEXT) + kinds.count(BLOB)
        values[TEXT] = values[BLOB] = iter(take_byte_values(scan, count))
    return [(kind, next(values[kind])) for kind in kinds]


def take_few(scan, count):
    different = scan.varint()
    need(1 <= different <= 256, "a page of few with %d values" % different)
    indexes = take_numbers(scan, count)
    need(all(index < different for index in indexes), "an index passes the few values")
    need(scan.ahead() in (2, 3, 4, 5, 6, 7, 8), "an encoding that few values never have")
    values = take_page(scan, different)
    return [values[index] for index in indexes]


def take_page(scan, count):
    encoding = scan.ahead()
    if encoding in (2, 3):
        return [(INTEGER, value) for value in take_integers(scan, count)]
    if encoding in (4, 8):
        return [(REAL, value) for value in take_reals(scan, count)]
    scan.number(1)
    if encoding == 1:
        return [take_constant(scan)] * count
    if encoding in (5, 6):
        kind = TEXT if encoding == 5 else BLOB
        return [(kind, value) for value in take_byte_values(scan, count)]
    takes = {7: take_mixed, 9: take_few, 10: take_sharing}
    need(encoding in takes, "an unknown encoding")
    return takes[encoding](scan, count)


def decode_page(raw, count):
    """(encoding, [(type, value)])"""
    scan = Scan(raw)
    cells = take_page(scan, count)
    need(scan.left() == 0, "bytes are left behind a page")
    return raw[0], cells


def decompress(stored, size, unpacker=zstandard.ZstdDecompressor()):
    """One frame that tells its content size, and nothing behind it."""
    try:
        need(zstandard.frame_content_size(stored) == size, "a frame of another size")
        frame = unpacker.decompressobj()
        raw = frame.decompress(stored)
    except zstandard.ZstdError as error:
        raise Damage("a frame: %s" % error) from None
    need(frame.eof and not frame.unused_data and len(raw) == size, "not just one whole frame")
    return raw


def is_storable(cell):
    return cell[0] != REAL or not math.isnan(cell[1])


def order(cell):
    kind, value = cell
    return (kind if kind >= TEXT else INTEGER, value)


class Bound:
    def __init__(self, scan):
        tag = scan.number(1)
        self.cut, self.kind, self.value = tag >= 16, tag % 16, None
        need(tag < 32 and self.kind <= BLOB, "a bound of unknown type")
        need(not self.cut or self.kind >= TEXT, "a cut bound that is neither text nor blob")
        if self.kind == INTEGER:
            self.value = signed(scan.number(8))
        elif self.kind == REAL:
            self.value = struct.unpack("<d", scan.take(8))[0]
        elif self.kind != NULL:
            self.value = scan.bytes()
            need(len(self.value) <= 32, "a bound of wrong size")
            need(not self.cut or len(self.value) == 32, "a cut bound of wrong size")
        need(is_storable((self.kind, self.value)), "a bound that is not a number")

    def check(self, cell):
        """The bound was made from this very value."""
        if cell is None:
            return self.kind == NULL
        kind, value = cell
        if kind >= TEXT:
            return self.kind == kind and self.cut == (len(value) > 32) and self.value == value[:32]
        return self.kind in (INTEGER, REAL) and not self.cut and self.value == value


class Table:
    def __init__(self, name, data):
        self.name, self.data, self.blocks, self.encodings = name, data, [], set()
        need(len(self.data) >= HEADER_BYTES + FOOTER_BYTES, "too short")
        self.read_header()
        self.read_footer()
        self.read_index()

    def checksum(self, data):
        return xxhash.xxh3_64_intdigest(data, seed=self.seed)

    def block(self, offset, size, checksum, words):
        need(offset + size <= len(self.data), words + " passes the file's end")
        data = self.data[offset:offset + size]
        self.blocks.append((offset, size, checksum))
        need(self.checksum(data) == checksum, words + " at %d fails its checksum" % offset)
        return data

    def read_header(self):
        header = struct.unpack("<8sII16sQQQ", self.data[:HEADER_BYTES])
        magic, version, zero, store, epoch, number, checksum = header
        need(magic == b"MWTABLE\n" and zero == 0, "no table file")
        self.seed = xxhash.xxh3_64_intdigest(store + struct.pack("<QQ", epoch, number), seed=0)
        need(self.checksum(self.data[:48]) == checksum, "the header fails its checksum")
        need(version == 2, "format version %d" % version)
        if re.fullmatch(r"table-[0-9a-f]{16}-[0-9a-f]{16}", self.name):
            need(self.name == "table-%016x-%016x" % (epoch, number), "not the file of its name")
        self.store, self.epoch, self.number = store, epoch, number

    def read_footer(self):
        footer = self.data[-FOOTER_BYTES:]
        fields = struct.unpack("<QQIIQQ8s", footer)
        size, offset, bytes_, version, properties_sum, checksum, magic = fields
        need(magic == b"\nMWTEND\n", "does not end as a table file")
        need(self.checksum(footer[:32]) == checksum, "the footer fails its checksum")
        need(version == 2 and size == len(self.data), "the file's size is not the footer's")
        need(offset + bytes_ + FOOTER_BYTES == size, "the properties do not end at the footer")
        self.footer_checksum = checksum
        scan = Scan(self.block(offset, bytes_, properties_sum, "properties"))
        self.rows, self.tombstones, self.sequence_min, self.sequence_max, self.group_count = (
            scan.number(8) for _ in range(5))
        self.filter_place = [scan.number(8) for _ in range(3)]
        self.index_place = [scan.number(8) for _ in range(3)]
        self.key = scan.number(1)
        need(self.key in (KEY_INTEGER, KEY_TEXT, KEY_ENCODED), "an unknown kind of key")
        self.column_ids = [scan.varint() for _ in range(scan.varint())]
        places = [[scan.varint(), scan.varint(), scan.varint(), scan.number(8)]
                  for _ in range(scan.varint())]
        need(scan.left() == 0, "bytes are left behind the properties")
        self.read_dictionaries(places)
        need(self.sequence_min <= self.sequence_max, "sequences")
        need(sum(self.filter_place[:2]) == self.index_place[0], "a gap between filter and index")
        need(sum(self.index_place[:2]) == offset, "a gap between index and properties")

    def read_dictionaries(self, places):
        """Column: dictionary, for columns that have one."""
        self.dictionaries, last = {}, 0
        self.groups_end = self.filter_place[0] - sum(place[2] for place in places)
        need(len(places) <= 8 and self.groups_end >= HEADER_BYTES, "the dictionaries' sizes")
        offset = self.groups_end
        for column, raw_bytes, stored_bytes, checksum in places:
            need(last < column <= len(self.column_ids), "dictionaries out of order")
            need(1 <= stored_bytes <= raw_bytes <= 65536, "a dictionary's sizes")
            raw = self.block(offset, stored_bytes, checksum, "dictionary")
            if stored_bytes < raw_bytes:
                raw = decompress(raw, raw_bytes)
            need(len(raw) == raw_bytes, "a dictionary of another size")
            self.dictionaries[column] = zstandard.ZstdCompressionDict(
                raw, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            offset, last = offset + stored_bytes, column
        self.unpackers = [zstandard.ZstdDecompressor(dict_data=self.dictionaries.get(column))
                          for column in range(1 + len(self.column_ids))]

    def read_index(self):
        self.filter = self.block(*self.filter_place, "filter")
        scan = Scan(self.block(*self.index_place, "index"))
        self.groups, offset, last = [], HEADER_BYTES, None
        for _ in range(self.group_count):
            group = {"rows": scan.varint(), "tombstones": scan.varint(), "offset": offset}
            group["directory"] = offset + scan.varint()
            group["directory_bytes"] = scan.varint()
            group["checksum"] = scan.number(8)
            group["first"], group["last"] = scan.bytes(), scan.bytes()
            need(1 <= group["rows"] <= 65536, "a group's rows")
            need(group["tombstones"] <= group["rows"], "a group's tombstones")
            need(last is None or last < group["first"], "groups out of order")
            offset, last = group["directory"] + group["directory_bytes"], group["last"]
            self.groups.append(group)
        need(scan.left() == 0, "bytes are left behind the index")
        need(offset == self.groups_end, "a gap between the groups and what follows")
        ids = self.rows + self.tombstones
        need(sum(group["rows"] for group in self.groups) == ids, "the number of versions")
        need(sum(group["tombstones"] for group in self.groups) == self.tombstones,
             "the number of tombstones")
        need(len(self.filter) == (ids * 10 + 511) // 512 * 64, "the filter's size")

    def page(self, scan, offset, column, rows_left, has_separator):
        rows, raw_bytes, stored_bytes = scan.varint(), scan.varint(), scan.varint()
        checksum = scan.number(8)
        separator = scan.bytes() if has_separator else None
        need(1 <= rows <= rows_left, "a page passes the group's last row")
        need(1 <= stored_bytes <= raw_bytes, "a page's sizes")
        need(raw_bytes <= (32768 if rows > 1 else 2**30 + 64), "a page larger than allowed")
        raw = self.block(offset, stored_bytes, checksum, "page")
        if stored_bytes < raw_bytes:
            raw = decompress(raw, raw_bytes, self.unpackers[column])
        encoding, cells = decode_page(raw, rows)
        self.encodings.add(encoding)
        need(all(is_storable(cell) for cell in cells), "a real that is not a number")
        return stored_bytes, separator, encoding, cells

    def key_bytes(self, cell):
        return cell[1] if self.key != KEY_INTEGER else struct.pack(">Q", (cell[1] & M64) ^ (1 << 63))

    def check_keys(self, separator, encoding, cells, before):
        allowed = {KEY_INTEGER: (2, 3), KEY_TEXT: (5, 10), KEY_ENCODED: (6, 10)}[self.key]
        kind = {KEY_INTEGER: INTEGER, KEY_TEXT: TEXT, KEY_ENCODED: BLOB}[self.key]
        need(encoding in allowed and cells[0][0] == kind, "an encoding that keys never have")
        for i, cell in enumerate(cells):
            key = self.key_bytes(cell)
            need(before is None or before < key, "keys do not ascend")
            if i == 0 and separator is not None:
                need(before < separator <= key, "a separator is wrong")
            need(self.may_hold(key), "the filter denies a key")
            before = key
        return before

    def may_hold(self, key):
        hash_ = self.checksum(key)
        block = ((hash_ >> 32) * (len(self.filter) // 64) >> 32) * 64
        for i, salt in enumerate(SALTS):
            word = int.from_bytes(self.filter[block + 8 * i:block + 8 * i + 8], "little")
            if not word >> ((hash_ & 0xFFFFFFFF) * salt % 2**32 >> 26) & 1:
                return False
        return True

    def read_group(self, group):
        """[(key, tombstone, [cell of each column])]"""
        rows, offset = group["rows"], group["offset"]
        place = group["directory"], group["directory_bytes"], group["checksum"]
        scan = Scan(self.block(*place, "directory"))
        flags = scan.number(1)
        need(flags == (1 if group["tombstones"] else 0), "flags")
        bits = int.from_bytes(scan.take((rows + 7) // 8), "little") if flags else 0
        need(bits >> rows == 0, "a spare bit is set")
        need(bin(bits).count("1") == group["tombstones"], "the tombstones' bits")
        page_count, columns, before = scan.varint(), [], None
        for column in range(1 + len(self.column_ids)):
            cells = []
            while len(cells) < rows:
                has_separator = column == 0 and len(cells) > 0
                size, separator, encoding, more = self.page(scan, offset, column, rows - len(cells),
                                                            has_separator)
                if column == 0:
                    before = self.check_keys(separator, encoding, more, before)
                offset, page_count = offset + size, page_count - 1
                cells += more
            columns.append(cells)
        need(page_count == 0 and offset == group["directory"], "pages do not fill the group")
        keys = [self.key_bytes(cell) for cell in columns[0]]
        need(keys[0] == group["first"] and keys[-1] == group["last"], "first or last key")
        for cells in columns[1:]:
            self.check_statistics(scan, cells, bits)
        need(scan.left() == 0, "bytes are left behind a directory")
        return [(columns[0][r][1], bool(bits >> r & 1), [cells[r] for cells in columns[1:]])
                for r in range(rows)]

    @staticmethod
    def check_statistics(scan, cells, bits):
        live = [cell for r, cell in enumerate(cells) if not bits >> r & 1]
        need(all(cell[0] == NULL for r, cell in enumerate(cells) if bits >> r & 1),
             "a tombstone has a value")
        values = [cell for cell in live if cell[0] != NULL]
        need(scan.varint() == len(live) - len(values), "the number of NULLs")
        need(Bound(scan).check(min(values, key=order, default=None)), "a least value")
        need(Bound(scan).check(max(values, key=order, default=None)), "a greatest value")

    def versions(self):
        for group in self.groups:
            yield from self.read_group(group)


def show(cell):
    kind, value = cell
    if kind == TEXT:
        return repr(value.decode(errors="replace"))
    return "NULL" if kind == NULL else "x'%s'" % value.hex() if kind == BLOB else repr(value)


def read_file(path, dump):
    with open(path, "rb") as file:
        table = Table(os.path.basename(path), file.read())
    rows = tombstones = 0
    ids = set()
    for key, tombstone, cells in table.versions():
        ids.add(key)
        tombstones += tombstone
        rows += not tombstone
        if dump:
            shown = ["tombstone"] if tombstone else [show(cell) for cell in cells]
            print("\t".join([repr(key)] + shown))
    need(rows == table.rows and tombstones == table.tombstones, "the number of rows")
    need(len(ids) == rows + tombstones, "an id twice")
    print("%s: rows %d, tombstones %d, distinct ids %d" % (path, rows, tombstones, len(ids)))


def main(args):
    dump = "--dump" in args
    paths = [arg for arg in args if arg != "--dump"]
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    for path in paths:
        try:
            read_file(path, dump)
        except Damage as damage:
            print("%s: %s" % (path, damage), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
