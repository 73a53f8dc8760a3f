#!/usr/bin/python3
"""Reads whole stores and each of their files, written from core/FORMAT.md alone, without the engine.

    read_store.py PATH...              verifies all; describes folders of stores and single files
    read_store.py --dump PATH...       the same with every version, entry and row
    read_store.py --rows PATH...       only rows, one a line: of a store those that live, of a file all
    read_store.py --flip FOLDER...     changes each byte of a store in memory, one at a time: a damage must be
                                       reported unless FORMAT.md says that nothing covers the byte
    read_store.py --serve              takes a path from each line of standard input; gives its rows, then
                                       "ok" or "damaged: ..."; for "? PATH" what a store consists of

A row is the values of its key and the others, between tabs: n, i:<integer>, r:<8 bytes of the real, hex>,
t:<hex>, b:<hex>.
Exit status 1 and the reason on the first rule that is broken; 77 when python3-xxhash or
python3-zstandard are not installed.
"""
import os
import re
import struct
import sys

from read_key import KEY_BYTES_MAX, KEY_NAMES, Keys, key_cell
from read_table import (BLOB, INTEGER, M64, NULL, REAL, TEXT, Damage, Scan, Table, is_storable, need, show,
                        signed, xxhash)

NAMES = {kind: re.compile(kind + "-([0-9a-f]{16})" + tail + "$")
         for kind, tail in (("table", "-([0-9a-f]{16})"), ("wal", "-([0-9a-f]{16})"), ("manifest", ""))}
TMP_NAME = re.compile(r"tmp-(.+)-[0-9a-f]{16}$")
MEBI = 1 << 20


def seed_of(store, epoch, number):
    return xxhash.xxh3_64_intdigest(store + struct.pack("<QQ", epoch, number), seed=0)


def checksum_of(data, seed):
    return xxhash.xxh3_64_intdigest(data, seed=seed)


def numbers_of(kind, name):
    """The numbers in a file's name; None when it is not of this kind."""
    match = NAMES[kind].match(name)
    return tuple(int(digits, 16) for digits in match.groups()) if match else None


# ---- how things are shown --------------------------------------------------------------------------

def machine(cell):
    kind, value = cell
    if kind == NULL:
        return "n"
    if kind == INTEGER:
        return "i:%d" % value
    if kind == REAL:
        return "r:" + struct.pack(">d", value).hex()
    return ("t:" if kind == TEXT else "b:") + value.hex()


def machine_row(cells):
    return "\t".join(machine(cell) for cell in cells)


def human_row(cells):
    return "(" + ", ".join(show(cell) for cell in cells) + ")"


# ---- manifests -------------------------------------------------------------------------------------

class Manifest:
    """One manifest; every rule of "Validity"."""
    START = struct.Struct("<8sII")
    HEADERS = {2: struct.Struct("<8sII16sQQQQqQQQQIIIII"), 3: struct.Struct("<8sII16sQQQQqQQQQQ16sIIIII")}
    EPOCH = struct.Struct("<QQQI")
    FILE = struct.Struct("<QQIQQQQQQQII")
    TRAILER = struct.Struct("<QQ8s")

    def __init__(self, name, data):
        self.name, self.data = name, data
        need(len(data) >= self.START.size, "too short for a manifest")
        magic, version, zero = self.START.unpack_from(data)
        need(magic == b"MWMANIF\n", "rule 1: no manifest")
        need(version in self.HEADERS and zero == 0, "format version %d" % version)
        self.header = self.HEADERS[version]
        need(len(data) >= self.header.size + self.TRAILER.size, "too short for a manifest")
        self.read_header()
        self.read_trailer()
        self.read_parts()
        self.check_numbers()
        self.keys = Keys(self.key, self.declaration)
        self.check_epochs()
        for i, file in enumerate(self.files):
            self.check_file(file, self.files[:i])
        self.check_order()

    def read_header(self):
        (_, version, _, self.store, self.number, self.boundary, self.cursor, self.sequence, self.count,
         self.generation, self.table_number, self.flushed, self.merged, *pledge, self.key, self.column_count,
         self.declared, self.epoch_count, self.file_count) = self.header.unpack_from(self.data)
        self.pledged, self.pledge = pledge or (0, bytes(16))
        need(self.pledged <= self.cursor, "rule 4: a pledge at %d" % self.pledged)
        numbers = numbers_of("manifest", self.name)
        need(numbers is None or numbers[0] == self.number, "rule 1: number %d" % self.number)

    def read_trailer(self):
        size, checksum, magic = self.TRAILER.unpack(self.data[-self.TRAILER.size:])
        need(magic == b"\nMWMEND\n", "rule 1: does not end as a manifest")
        need(size == len(self.data), "rule 1: the size is %d, expected %d" % (len(self.data), size))
        seed = seed_of(self.store, 0, self.number)
        need(checksum_of(self.data[:-16], seed) == checksum, "rule 1: fails its checksum")

    def read_parts(self):
        scan = Scan(self.data[self.header.size:-self.TRAILER.size])
        need(self.column_count <= 2000 and self.declared <= MEBI, "rule 5: columns, declaration")
        need(max(self.epoch_count, self.file_count) <= 65536, "rule 5: epochs, files")
        self.columns = [scan.number(4) for _ in range(self.column_count)]
        self.declaration = scan.take(self.declared)
        self.epochs = [self.read_epoch(scan) for _ in range(self.epoch_count)]
        self.files = [self.read_file(scan) for _ in range(self.file_count)]
        need(scan.left() == 0, "rule 2: %d bytes too many" % scan.left())

    def read_epoch(self, scan):
        names = ("epoch", "start", "copied_from", "sealed")
        return dict(zip(names, self.EPOCH.unpack(scan.take(self.EPOCH.size))))

    def read_file(self, scan):
        names = ("epoch", "number", "level", "generation", "rows", "tombstones", "bytes", "sequence_min",
                 "sequence_max", "checksum", "min_bytes", "max_bytes")
        file = dict(zip(names, self.FILE.unpack(scan.take(self.FILE.size))))
        file["name"] = "table-%016x-%016x" % (file["epoch"], file["number"])
        file["min"], file["max"] = scan.take(file["min_bytes"]), scan.take(file["max_bytes"])
        return file

    def check_numbers(self):
        need(1 <= self.boundary <= self.number, "rule 3: boundary %d" % self.boundary)
        need(self.cursor or self.sequence == 0, "rule 4: sequence %d at cursor 0" % self.sequence)
        need(self.key in KEY_NAMES, "rule 5: key %d" % self.key)
        need(len(set(self.columns)) == len(self.columns), "rule 5: a column id twice")
        need(0 <= self.count <= sum(file["rows"] for file in self.files), "rule 10: count %d" % self.count)

    def check_epochs(self):
        before = {"epoch": 0, "start": 0, "sealed": 1}
        for epoch in self.epochs:
            need(epoch["epoch"] > before["epoch"] and before["sealed"], "rule 6: epochs out of order")
            need(epoch["sealed"] in (0, 1), "rule 6: sealed is neither 0 nor 1")
            if epoch["sealed"]:
                need(1 <= epoch["copied_from"] <= epoch["start"], "rule 6: copied from")
                need(epoch["start"] >= before["start"], "rule 6: starts fall")
            else:
                need(epoch["start"] == epoch["copied_from"] == 0, "rule 6: an unsealed epoch has a start")
            before = epoch

    def check_file(self, file, before):
        need(self.epochs and 1 <= file["epoch"] <= self.epochs[-1]["epoch"], "rule 7: a file's epoch")
        need(1 <= file["number"] <= self.table_number, "rule 7: a file's number")
        need(all(file["name"] != other["name"] for other in before), "rule 7: a file twice")
        need(file["level"] <= 15 and 1 <= file["generation"] <= self.generation, "rule 7: level, generation")
        need(file["bytes"] >= 1, "rule 7: no bytes")
        low, high, versions = file["sequence_min"], file["sequence_max"], file["rows"] + file["tombstones"]
        if versions == 0:
            need(low == high == 0, "rule 8: sequences without versions")
            need(file["min"] == file["max"] == b"", "rule 11: keys without versions")
        else:
            need(1 <= low <= high <= self.sequence and versions <= high - low + 1, "rule 8: sequences")
            need(file["min"] <= file["max"], "rule 11: lowest and highest key")
            for end in ("min", "max"):
                key_cell(self.key, file[end])

    def check_order(self):
        level, generation, base_generation, sequence, highest = 16, 0, 0, 0, None
        for file in self.files:
            need(file["level"] <= level, "rule 9: levels rise")
            if file["level"] < level:
                level, highest = file["level"], None
            if level and file["sequence_max"]:
                need(highest is None or highest < file["min"], "rule 9: keys in a level")
                highest = file["max"]
            if level:
                base_generation = max(base_generation, file["generation"])
            else:
                need(file["generation"] >= max(generation, base_generation), "rule 9: generations")
                generation = file["generation"]
                need(file["sequence_min"] > sequence or not file["sequence_max"], "rule 9: sequences")
            sequence = max(sequence, file["sequence_max"])

    def sealed_epochs(self):
        return [epoch for epoch in self.epochs if epoch["sealed"]]

    def describe(self, out, everything):
        out("%s: number %d, boundary %d, cursor %d, sequence %d, count %d, generation %d" % (
            self.name, self.number, self.boundary, self.cursor, self.sequence, self.count, self.generation))
        out("    store %s, %s key, column ids %s, declaration of %d bytes" % (
            self.store.hex(), KEY_NAMES[self.key], self.columns, self.declared))
        out("    table number %d, flushed %d bytes, merged %d bytes" % (
            self.table_number, self.flushed, self.merged))
        if everything:
            out("    declaration %r" % self.declaration)
        for epoch in self.epochs:
            out("    epoch %(epoch)d: start %(start)d, copied from %(copied_from)d, sealed %(sealed)d"
                % epoch)
        for file in self.files:
            out("    %(name)s: level %(level)d, generation %(generation)d, rows %(rows)d, tombstones "
                "%(tombstones)d, bytes %(bytes)d, sequences %(sequence_min)d to %(sequence_max)d, checksum "
                "%(checksum)016x" % file)
            if file["sequence_max"]:
                ends = [human_row(self.keys.show(file[end])) for end in ("min", "max")]
                out("        keys %s to %s" % tuple(ends))

    def rows(self):
        return []


# ---- log segments ----------------------------------------------------------------------------------

class Record:
    HEADER = struct.Struct("<QQQQQIBBH")
    PAYLOAD_MAX = 262144
    COMMIT, ABORT, ADOPT, PREPARE, DECISION = 1, 2, 3, 4, 5
    FIRST, LAST = 1, 2

    def __init__(self, data, offset, fields):
        (self.checksum, self.previous, self.position, self.epoch, self.durable_through, size,
         self.kind, self.part, _) = fields
        start = offset + self.HEADER.size
        self.offset, self.payload = offset, data[start:start + size]
        self.end = start + (size + 7) // 8 * 8

    @classmethod
    def at(cls, data, offset, seed, version):
        """The record at an offset, as far as its own checksum goes; None when there is none."""
        if len(data) - offset < cls.HEADER.size:
            return None
        fields = cls.HEADER.unpack_from(data, offset)
        size, end = fields[5], offset + cls.HEADER.size + (fields[5] + 7) // 8 * 8
        if size > cls.PAYLOAD_MAX or end > len(data):
            return None
        if checksum_of(data[offset + 8:end], seed) != fields[0]:
            return None
        kind, part, zero = fields[6:]
        if not cls.COMMIT <= kind <= (cls.ADOPT if version == 2 else cls.DECISION) or part > 3 or zero:
            return None
        return cls(data, offset, fields)


class Op:
    PUT, DELETE = 1, 2

    def __init__(self, scan, sequence):
        self.kind, self.sequence = scan.number(1), sequence
        need(self.kind in (self.PUT, self.DELETE), "an op of kind %d" % self.kind)
        self.key = scan.bytes()
        self.row = scan.bytes() if self.kind == self.PUT else None


class Entry:
    PAYLOAD_MAX = 1 << 30

    def __init__(self, records, name):
        first = records[0]
        self.position, self.epoch, self.kind = first.position, first.epoch, first.kind
        self.offset, self.end = first.offset, records[-1].end
        self.durable_through = max(record.durable_through for record in records)
        self.payload = b"".join(record.payload for record in records)
        self.name = name

    def read(self):
        """Its payload; entries that do not count are not looked into."""
        try:
            need(len(self.payload) <= self.PAYLOAD_MAX, "an entry of %d bytes" % len(self.payload))
            self.rows = self.kind
            readers = {Record.COMMIT: self.read_commit, Record.ABORT: self.read_abort,
                       Record.ADOPT: self.read_adopt, Record.PREPARE: self.read_prepare,
                       Record.DECISION: self.read_decision}
            readers[self.kind](Scan(self.payload))
        except Damage as damage:
            raise Damage("%s: position %d at %d: %s" % (
                self.name, self.position, self.offset, damage)) from None

    def read_commit(self, scan):
        count, self.sequence_first, delta = (scan.number(8) for _ in range(3))
        self.count_delta = signed(delta)
        need(1 <= count <= len(self.payload), "%d ops" % count)
        need(abs(self.count_delta) <= count, "%d ops and a count of %+d" % (count, self.count_delta))
        need(self.sequence_first >= 1, "sequence 0")
        self.ops = [Op(scan, self.sequence_first + i) for i in range(count)]
        self.sequence_last = self.sequence_first + count - 1
        need(scan.left() == 0, "%d bytes behind the ops" % scan.left())
        for before, op in zip(self.ops, self.ops[1:]):
            need(before.key < op.key, "keys do not ascend")

    def read_abort(self, scan):
        self.cancels = scan.number(8)
        need(scan.left() == 0, "%d bytes too many" % scan.left())
        need(self.cancels == self.position - 1, "an abort of %d" % self.cancels)

    def read_prepare(self, scan):
        fixed = 4 + 16 + 1
        need(len(self.payload) >= fixed, "%d bytes of a prepare" % len(self.payload))
        tail = self.payload[-fixed:]
        host_bytes, self.pledge, self.rows = int.from_bytes(tail[:4], "little"), tail[4:20], tail[20]
        inner = len(self.payload) - fixed - host_bytes
        need(host_bytes <= 65536 and inner >= 0, "a path of %d bytes" % host_bytes)
        need(self.rows in (Record.COMMIT, Record.ADOPT), "a prepare of kind %d" % self.rows)
        self.host = self.payload[inner:inner + host_bytes]
        (self.read_commit if self.rows == Record.COMMIT else self.read_adopt)(Scan(self.payload[:inner]))

    def read_decision(self, scan):
        self.decides = scan.number(8)
        need(scan.left() == 0, "%d bytes too many" % scan.left())
        need(self.decides == self.position - 1, "a decision of %d" % self.decides)

    def read_adopt(self, scan):
        self.sequence_first, self.sequence_last, delta = (scan.number(8) for _ in range(3))
        self.count_delta, count = signed(delta), scan.number(4)
        need(1 <= self.sequence_first <= self.sequence_last, "sequences")
        need(1 <= count <= scan.left() // 66, "%d table files" % count)
        self.files = [self.read_adopted(scan) for _ in range(count)]
        need(scan.left() == 0, "%d bytes behind the files" % scan.left())
        above, versions = self.sequence_first - 1, 0
        for file in self.files:
            need(above < file["sequence_min"] and file["sequence_max"] <= self.sequence_last,
                 "%s: sequences" % file["name"])
            above = file["sequence_max"]
            versions += file["rows"] + file["tombstones"]
        need(abs(self.count_delta) <= versions, "%d versions and a count of %+d" % (
            versions, self.count_delta))

    def read_adopted(self, scan):
        names = ("epoch", "number", "rows", "tombstones", "bytes", "sequence_min", "sequence_max", "checksum")
        file = {name: scan.number(8) for name in names}
        file["min"], file["max"] = scan.bytes(), scan.bytes()
        file["name"] = "table-%016x-%016x" % (file["epoch"], file["number"])
        need(1 <= file["epoch"] <= self.epoch and file["number"] >= 1 and file["bytes"] >= 1,
             "%s: epoch, number or bytes" % file["name"])
        versions = file["rows"] + file["tombstones"]
        need(1 <= versions <= file["sequence_max"] - file["sequence_min"] + 1,
             "%s: %d versions, sequences" % (file["name"], versions))
        need(max(len(file["min"]), len(file["max"])) <= KEY_BYTES_MAX and file["min"] <= file["max"],
             "%s: lowest and highest key" % file["name"])
        return file


def decode_row(row, column_count):
    """[(type, value)] of a row as the log has it."""
    scan = Scan(row)
    tags = [scan.varint() for _ in range(column_count)]
    cells = []
    for tag in tags:
        if tag == 0:
            cells.append((NULL, None))
        elif tag <= 8:
            cells.append((INTEGER, int.from_bytes(scan.take(tag), "little", signed=True)))
        elif tag == 9:
            cells.append((INTEGER, 0))
        elif tag == 10:
            cells.append((REAL, struct.unpack("<d", scan.take(8))[0]))
            need(is_storable(cells[-1]), "a real that is not a number")
        else:
            cells.append((TEXT if tag % 2 else BLOB, scan.take((tag - 11) // 2)))
    need(scan.left() == 0, "%d bytes behind a row" % scan.left())
    return cells


class Segment:
    """A log segment by itself: header, the entries that count, what lies behind them."""
    HEADER = struct.Struct("<8sII16sQQQQQ16sQ")
    VERSIONS = (2, 3)

    def __init__(self, name, data):
        self.name, self.data, self.entries, self.fault = name, data, [], None
        self.filled = len(data.rstrip(b"\0"))
        try:
            self.read_header()
        except Damage as damage:
            self.fault = damage
            return
        self.check_header()
        self.read_entries()

    def read_header(self):
        need(len(self.data) >= self.HEADER.size, "too short for a log segment")
        (magic, version, _, self.store, self.epoch, self.number, self.generation, self.first_position,
         self.generation_start, _, self.checksum) = self.HEADER.unpack_from(self.data)
        need(magic == b"mwallog\n", "no log segment")
        self.seed = seed_of(self.store, self.epoch, self.number)
        need(checksum_of(self.data[:88], self.seed) == self.checksum, "the header fails its checksum")
        numbers = numbers_of("wal", self.name)
        need(numbers in (None, (self.epoch, self.number)), "not the file of its name")
        self.version = version

    def check_header(self):
        """What no crash leaves under a right checksum."""
        need(self.version in self.VERSIONS, "format version %d" % self.version)
        need(self.epoch >= 1 and self.number >= 1 and self.generation >= 1, "epoch, number or generation 0")
        need(1 <= self.generation_start <= self.first_position, "first position, generation start")

    def read_entries(self):
        self.end, chain, next_position, records = self.HEADER.size, self.checksum, self.first_position, []
        while True:
            offset = records[-1].end if records else self.end
            record = Record.at(self.data, offset, self.seed, self.version)
            if record is None or record.previous != chain or record.position != next_position:
                return
            if bool(record.part & Record.FIRST) != (not records):
                return
            if records and (record.epoch, record.kind) != (records[0].epoch, records[0].kind):
                return
            chain = record.checksum
            records.append(record)
            if record.part & Record.LAST:
                self.entries.append(Entry(records, self.name))
                self.end, records, next_position = record.end, [], next_position + 1

    def next_position(self):
        return self.first_position + len(self.entries)

    def stray_records(self, start):
        """Records behind an offset, each by its own checksum."""
        found, offset = [], start
        while offset < self.filled:
            record = Record.at(self.data, offset, self.seed, self.version)
            if record:
                found.append(record)
            offset += 8
        return found

    def proves(self, position, start):
        """Do records behind an offset say that this missing position was durable?"""
        return any(record.durable_through >= position for record in self.stray_records(start))

    def check_end(self):
        missing = self.next_position()
        need(not self.proves(missing, self.end), "%s: position %d is missing at %d, and a later record says "
             "that it was durable" % (self.name, missing, self.end))

    def check_alone(self):
        if self.fault:
            raise self.fault
        for entry in self.entries:
            entry.read()
        self.check_end()

    def describe(self, out, everything):
        if self.fault:
            out("%s: void, %s" % (self.name, self.fault))
            return
        out("%s: generation %d from %d, positions %d to %d, end at %d of %d, behind it %s" % (
            self.name, self.generation, self.generation_start, self.first_position, self.next_position() - 1,
            self.end, len(self.data), "zeros" if self.filled <= self.end else "a torn tail"))
        if everything:
            for entry in self.entries:
                describe_entry(entry, out)

    def rows(self):
        """Rows without their columns' number, which only the manifest knows: as the log has them."""
        for entry in self.entries:
            if entry.kind in (Record.ABORT, Record.DECISION):
                yield "abort\t%d" % entry.cancels if entry.kind == Record.ABORT else "decision\t%d" % entry.decides
                continue
            if entry.kind == Record.PREPARE:
                yield "prepare\t%d\t%s\t%s" % (entry.position, entry.pledge.hex(), entry.host.hex())
            if entry.rows == Record.ADOPT:
                yield "\t".join(["adopt", str(entry.position)] + [file["name"] for file in entry.files])
                continue
            for op in entry.ops:
                yield "\t".join([("put", "delete")[op.kind - 1], str(entry.position), str(op.sequence),
                                 op.key.hex()] + ([op.row.hex()] if op.row is not None else []))


def describe_entry(entry, out):
    out("    position %d at %d, epoch %d, durable through %d" % (
        entry.position, entry.offset, entry.epoch, entry.durable_through))
    if entry.kind == Record.ABORT:
        out("        abort of %d" % entry.cancels)
        return
    if entry.kind == Record.DECISION:
        out("        decision of %d" % entry.decides)
        return
    if entry.kind == Record.PREPARE:
        out("        prepare of %s with %s" % (entry.pledge.hex(), entry.host.decode(errors="replace")))
    if entry.rows == Record.ADOPT:
        out("        adopts, sequences %d to %d, count %+d" % (
            entry.sequence_first, entry.sequence_last, entry.count_delta))
        for file in entry.files:
            out("            %(name)s: rows %(rows)d, tombstones %(tombstones)d, bytes %(bytes)d, sequences "
                "%(sequence_min)d to %(sequence_max)d, checksum %(checksum)016x" % file)
        return
    out("        %d ops from sequence %d, count %+d" % (
        len(entry.ops), entry.sequence_first, entry.count_delta))
    for op in entry.ops:
        out("        %s %s %s" % (("put", "delete")[op.kind - 1], op.key.hex(), (op.row or b"").hex()))


# ---- other files -----------------------------------------------------------------------------------

class State:
    LAYOUT = struct.Struct("<8s16sQQQ")

    def __init__(self, name, data, store):
        self.name = name
        need(len(data) == self.LAYOUT.size, "%d bytes, expected 48" % len(data))
        magic, self.boot, self.clean, self.position, self.checksum = self.LAYOUT.unpack(data)
        need(magic == b"mwstate\n", "no state file")
        need(self.clean in (0, 1), "neither open nor closed")
        need(checksum_of(data[:40], seed_of(store, 0, 0)) == self.checksum, "fails its checksum")

    def describe(self, out, everything):
        out("%s: %s at position %d%s" % (self.name, "closed" if self.clean else "open", self.position,
                                         ", boot id " + self.boot.hex() if everything else ""))

    def rows(self):
        return []


class TableFile:
    """A table file with all of its versions."""

    def __init__(self, name, data):
        self.table = Table(name, data)
        self.name = name
        self.versions = [(self.table.key_bytes((INTEGER, key)), tombstone, cells)
                         for key, tombstone, cells in self.table.versions()]
        for key, _, _ in self.versions:
            key_cell(self.table.key, key)
        for before, after in zip(self.versions, self.versions[1:]):
            need(before[0] < after[0], "keys do not ascend")
        self.tombstones = sum(version[1] for version in self.versions)
        need(self.tombstones == self.table.tombstones, "the number of tombstones")
        need(len(self.versions) == self.table.rows + self.tombstones, "the number of rows")

    def describe(self, out, everything):
        table = self.table
        out("%s: rows %d, tombstones %d, sequences %d to %d, groups %d, %s key, column ids %s" % (
            self.name, table.rows, table.tombstones, table.sequence_min, table.sequence_max,
            table.group_count, KEY_NAMES[table.key], table.column_ids))
        if everything:
            for key, tombstone, cells in self.versions:
                out("    %s %s" % (show(key_cell(table.key, key)),
                                   "tombstone" if tombstone else human_row(cells)))

    def rows(self):
        for key, tombstone, cells in self.versions:
            yield ("delete" if tombstone else "put") + "\t" + machine_row(
                [key_cell(self.table.key, key)] + ([] if tombstone else cells))


def read_segment_alone(name, data):
    segment = Segment(name, data)
    segment.check_alone()
    return segment


class Empty:
    def __init__(self, name, data):
        need(not data, "%d bytes, expected none" % len(data))
        self.name = name

    def describe(self, out, everything):
        out("%s: empty" % self.name)

    def rows(self):
        return []


def state_of(files):
    """The reader of a state file, whose checksum needs the store that only manifests know."""
    numbered = sorted(name for name in files if numbers_of("manifest", name))
    need(numbered, "a state file without a manifest beside it")
    store = Manifest(numbered[-1], files[numbered[-1]]).store
    return lambda name, data: State(name, data, store)


KINDS = (("table", b"MWTABLE\n", TableFile), ("wal", b"mwallog\n", read_segment_alone),
         ("manifest", b"MWMANIF\n", Manifest), ("state", b"mwstate\n", None), ("lock", None, Empty))


def reader_of(name, data, folder):
    """What reads a file: by its name, that which a temporary file is on its way to, or its magic.
    folder(): the files beside it."""
    on_its_way = TMP_NAME.match(name)
    name = on_its_way.group(1) if on_its_way else name
    kinds = [row for row in KINDS if name == row[0] or row[0] in NAMES and NAMES[row[0]].match(name)]
    kinds += [row for row in KINDS if row[1] and data.startswith(row[1])]
    for kind, _, reader in kinds[:1]:
        return state_of(folder()) if kind == "state" else reader
    raise Damage("no file of a store")


# ---- a whole store ---------------------------------------------------------------------------------

class Place:
    """Bytes of a file that nothing covers, and why."""

    def __init__(self, name, start, end, why):
        self.name, self.start, self.end, self.why = name, start, end, why


class Store:
    """files: name -> bytes of a folder. memo: what was read before of equal files."""

    def __init__(self, files, memo=None):
        self.files, self.memo = files, {} if memo is None else memo
        self.state, self.state_fault, self.uncovered = None, "missing", []
        self.read_manifest()
        self.read_state()
        self.live, self.tables = {}, []
        for file in self.manifest.files:
            self.apply_changes(self.changes_of_table(file))
        need(len(self.live) == self.manifest.count, "the manifest counts %d, its files hold %d" % (
            self.manifest.count, len(self.live)))
        self.collect_log()
        last = self.log[-1][1] if self.log else None
        if last and last.kind == Record.PREPARE:
            last.read()
            raise Damage("undecided: position %d counts if %s says so" % (
                last.position, last.host.decode(errors="replace")))
        self.apply_log()
        for name in self.names("table"):
            if name not in (table.name for table in self.tables):
                self.leave_all(name, "a table file that neither the manifest nor an entry names")

    def parse(self, kind, name):
        need(name in self.files, "%s is missing" % name)
        data = self.files[name]
        if (name, data) not in self.memo:
            try:
                self.memo[name, data] = kind(name, data)
            except Damage as damage:
                raise Damage("%s: %s" % (name, damage)) from None
        return self.memo[name, data]

    def leave(self, name, start, end, why):
        if start < end:
            self.uncovered.append(Place(name, start, end, why))

    def leave_all(self, name, why):
        self.leave(name, 0, len(self.files[name]), why)

    def names(self, kind):
        found = [(numbers_of(kind, name), name) for name in self.files if numbers_of(kind, name)]
        return [name for _, name in sorted(found)]

    def read_manifest(self):
        names = self.names("manifest")
        need(names, "no manifest")
        self.manifest = self.parse(Manifest, names[-1])
        for name in names[:-1]:
            self.leave_all(name, "a manifest that a newer one replaces")

    def read_state(self):
        """What a crash may leave of it says nothing and is no damage."""
        size = State.LAYOUT.size
        data = self.files.get("state")
        if data is None:
            return
        if len(data) < size or not any(data[:size]):
            self.state_fault = "of %d bytes, says nothing" % len(data)
            self.leave_all("state", "a state file as a crash may leave it")
            return
        self.leave("state", size, len(data), "what lies behind a state file")
        try:
            self.state = State("state", data[:size], self.manifest.store)
        except Damage as damage:
            raise Damage("state: %s" % damage) from None

    # -- table files --

    def changes_of_table(self, file):
        """[(key, its columns, or None for a delete)] of a file that manifest or log describe."""
        table = self.parse(TableFile, file["name"])
        self.compare(file, table.table)
        ends = (table.versions[0][0], table.versions[-1][0]) if table.versions else (b"", b"")
        need(ends == (file["min"], file["max"]), "%s: its keys are others than is said" % file["name"])
        self.tables.append(table)
        return [(key, None if tombstone else cells) for key, tombstone, cells in table.versions]

    def compare(self, file, table):
        """What manifest or log say of a file, and what the file says."""
        said = [file[name] for name in ("rows", "tombstones", "bytes", "sequence_min", "sequence_max",
                                        "checksum")]
        found = [table.rows, table.tombstones, len(table.data), table.sequence_min, table.sequence_max,
                 table.footer_checksum]
        need(said == found, "%s: expected %s, the file says %s" % (file["name"], said, found))
        need(table.store == self.manifest.store, "%s: a file of another store" % file["name"])
        need(table.key == self.manifest.key and table.column_ids == self.manifest.columns,
             "%s: key or columns are not the manifest's" % file["name"])

    # -- the log --

    def segments_of(self, epoch):
        """Segments of an epoch with a header that checks."""
        found = []
        for name in self.names("wal"):
            if numbers_of("wal", name)[0] != epoch:
                continue
            segment = self.parse(Segment, name)
            if segment.fault:
                need(segment.filled <= Segment.HEADER.size, "%s: %s, and something lies behind it" % (
                    name, segment.fault))
                self.leave_all(name, "a segment whose header does not check")
                continue
            need(segment.store == self.manifest.store, "%s: a segment of another store" % name)
            found.append(segment)
        return found

    def collect_log(self):
        """The entries above the cursor that make up the log, in the order of their positions."""
        self.log, self.segments = [], []
        self.next_position = self.manifest.cursor + 1
        sealed = self.manifest.sealed_epochs()
        limits = [epoch["copied_from"] for epoch in sealed[1:]] + [M64]
        seen = not sealed
        for epoch, limit in zip(sealed, limits):
            if limit > self.manifest.cursor + 1:
                seen = self.collect_epoch(epoch, limit)
        need(seen, "epoch %d has no segment" % (sealed[-1]["epoch"] if sealed else 0))
        missing = self.next_position
        for epoch in sealed:
            need(epoch["start"] <= missing, "position %d is missing, epoch %d starts at %d" % (
                missing, epoch["epoch"], epoch["start"]))
        need(self.state is None or self.state.position < missing,
             "position %d is missing, the state file says that %d was durable" % (
                 missing, self.state.position if self.state else 0))
        for name in self.names("wal"):
            if name not in (segment.name for segment in self.segments):
                self.leave_all(name, "a segment of which nothing is needed")

    def collect_epoch(self, epoch, limit):
        """False: none of the epoch's segments reaches back to where the log ended before."""
        seen, first = False, max(epoch["copied_from"], self.manifest.cursor + 1)
        for segment in self.segments_of(epoch["epoch"]):
            needed = [entry for entry in segment.entries if first <= entry.position < limit]
            seen = seen or segment.first_position <= self.next_position
            if segment.entries and not needed:
                continue
            if not segment.entries and segment.first_position != self.next_position:
                need(not segment.proves(self.next_position, segment.end), "%s: position %d is missing, and a "
                     "record says that it was durable" % (segment.name, self.next_position))
                continue
            if segment.first_position > self.next_position:
                need(not needed, "position %d is missing, %s has entries from %d" % (
                    self.next_position, segment.name, segment.first_position))
                continue
            self.check_generation(segment)
            self.segments.append(segment)
            for entry in needed:
                need(entry.position == self.next_position, "%s: position %d, expected %d" % (
                    segment.name, entry.position, self.next_position))
                self.log.append((segment, entry))
                self.next_position += 1
            if self.next_position < limit:
                segment.check_end()
            end = needed[-1].end if needed else 0
            self.leave(segment.name, end, len(segment.data), "behind the last entry that counts")
        return seen

    def check_generation(self, segment):
        """A generation is a set of whole segments."""
        need(segment.generation > self.manifest.generation, "%s: generation %d, flushed is %d" % (
            segment.name, segment.generation, self.manifest.generation))
        before = self.segments[-1] if self.segments else None
        if before and before.generation == segment.generation:
            need(before.generation_start == segment.generation_start, "%s: generation start" % segment.name)
        else:
            need(segment.generation_start == self.next_position, "%s: generation %d starts at %d" % (
                segment.name, segment.generation, segment.generation_start))
            need(not before or before.generation < segment.generation, "%s: generations fall" % segment.name)

    def apply_log(self):
        """What an abort cancels leaves nothing but its position: its sequences are free again."""
        sequence, before = self.manifest.sequence, None
        aborted = self.aborted()
        for segment, entry in self.log:
            entry.read()
            if entry.kind == Record.ABORT:
                need(before is not None, "%s: position %d: an abort of neither commit nor adopt" % (
                    segment.name, entry.position))
                before = None
                continue
            prepared = before is not None and before.kind == Record.PREPARE
            need(prepared == (entry.kind == Record.DECISION), "%s: position %d: a prepare is followed by its "
                 "decision, and nothing else is" % (segment.name, entry.position))
            if entry.kind == Record.DECISION:
                before = None
                continue
            need(entry.sequence_first > sequence, "%s: position %d: sequence %d after %d" % (
                segment.name, entry.position, entry.sequence_first, sequence))
            before = entry
            self.apply_entry(segment, entry, entry.position in aborted)
            if entry.position not in aborted:
                sequence = entry.sequence_last

    def aborted(self):
        """Positions that do not count."""
        return {entry.position - 1 for _, entry in self.log if entry.kind == Record.ABORT}

    def apply_entry(self, segment, entry, aborted):
        before = len(self.live)
        try:
            need(entry.count_delta + before >= 0, "the count falls below 0")
            if entry.rows == Record.ADOPT:
                need(segment.generation_start == entry.position, "not the first of its generation")
            changes = self.changes_of_commit(entry) if entry.rows == Record.COMMIT else []
            if aborted:
                return
            self.apply_changes(changes)
            for file in entry.files if entry.rows == Record.ADOPT else []:
                self.apply_changes(self.changes_of_table(file))
            need(len(self.live) - before == entry.count_delta, "a count of %+d, found %+d" % (
                entry.count_delta, len(self.live) - before))
        except Damage as damage:
            raise Damage("%s: position %d: %s" % (segment.name, entry.position, damage)) from None

    def changes_of_commit(self, entry):
        """[(key, its columns, or None for a delete)]"""
        for op in entry.ops:
            key_cell(self.manifest.key, op.key)
        return [(op.key, decode_row(op.row, self.manifest.column_count) if op.kind == Op.PUT else None)
                for op in entry.ops]

    def apply_changes(self, changes):
        for key, cells in changes:
            if cells is None:
                self.live.pop(key, None)
            else:
                self.live[key] = cells

    # -- what nothing covers --

    def proven(self, index):
        """Would the loss of a log entry be seen? Of one that nothing later vouches for it would not."""
        segment, entry = self.log[index]
        if self.state and self.state.position >= entry.position:
            return True
        if any(epoch["start"] > entry.position for epoch in self.manifest.sealed_epochs()):
            return True
        later = self.log[index + 1:]
        return any(other is not segment and other.epoch == segment.epoch for other, _ in later) or any(
            record.durable_through >= entry.position for record in segment.stray_records(entry.end))

    def all_uncovered(self):
        places = list(self.uncovered)
        for i, (segment, entry) in enumerate(self.log):
            if not self.proven(i):
                places.append(Place(segment.name, entry.offset, entry.end,
                                    "an entry at the end of the log that nothing later calls durable"))
        return places

    # -- output --

    def facts(self):
        """What there is, for tests that must have met it; each is a word for a search."""
        aborted = self.aborted()
        found = {"level %d" % file["level"] for file in self.manifest.files}
        found.add("closed" if self.state and self.state.clean else "open")
        for file in self.tables:
            found.update("encoding %d" % encoding for encoding in file.table.encodings)
            found.update(["dictionary"] if file.table.dictionaries else [])
        for segment, entry in self.log:
            name = {Record.COMMIT: "commit", Record.ABORT: "abort", Record.ADOPT: "adopt",
                    Record.DECISION: "decision"}[entry.rows]
            found.update(["prepare"] if entry.kind == Record.PREPARE else [])
            found.add(name + (" taken back" if entry.position in aborted else ""))
            if entry.epoch < segment.epoch:
                found.add("copy")
        return sorted(found)

    def rows(self):
        for key in sorted(self.live):
            yield machine_row(self.manifest.keys.row(key, self.live[key]))

    def describe(self, out, everything):
        self.manifest.describe(out, everything)
        for table in self.tables:
            table.describe(out, everything)
        for segment in self.segments:
            segment.describe(out, everything)
        if self.state:
            self.state.describe(out, everything)
        else:
            out("state: %s" % self.state_fault)
        for place in self.all_uncovered():
            out("not covered: %s [%d, %d): %s" % (place.name, place.start, place.end, place.why))
        for name in sorted(self.files):
            if TMP_NAME.match(name):
                out("%s: a leftover of %d bytes" % (name, len(self.files[name])))
        out("rows %d, log through position %d" % (len(self.live), self.next_position - 1))
        if everything:
            for key in sorted(self.live):
                out("    " + human_row(self.manifest.keys.row(key, self.live[key])))


# ---- every byte changed once -----------------------------------------------------------------------

ROOM_STRIDE = 4099


def flips_of(data):
    """(offset, changed bytes); of the zeros at a file's end, the room of a log, only some."""
    filled = len(data.rstrip(b"\0"))
    for i in list(range(min(filled + 64, len(data)))) + list(range(filled + 64, len(data), ROOM_STRIDE)):
        yield i, data[:i] + bytes([data[i] ^ 1 << i % 8]) + data[i + 1:]


def flip_store(files, out):
    """Changes each byte once. True: each change of a covered byte is reported."""
    memo = {}
    store = Store(files, memo)
    right, places, missed = list(store.rows()), store.all_uncovered(), []
    counts = {"reported": 0, "not covered": 0}
    for name in sorted(files):
        for i, changed in flips_of(files[name]):
            covered = not any(place.name == name and place.start <= i < place.end for place in places)
            try:
                rows = list(Store(dict(files, **{name: changed}), dict(memo)).rows())
            except Damage:
                counts["reported"] += 1
                continue
            counts["not covered"] += 1
            if covered:
                missed.append("%s, byte %d: the change is not seen, the rows are %s" % (
                    name, i, "the same" if rows == right else "others"))
    for words in missed:
        out(words)
    out("flipped %d, reported %d, not covered %d, missed %d" % (
        sum(counts.values()), counts["reported"], counts["not covered"] - len(missed), len(missed)))
    return not missed


def flip_files(files, out):
    """The same for each file by itself, where the rest of the store cannot help."""
    for name in sorted(files):
        try:
            read = reader_of(name, files[name], lambda: files)
            read(name, files[name])
        except Damage as damage:
            out("%s alone: not read, %s" % (name, damage))
            continue
        flipped, kept = 0, []
        for i, changed in flips_of(files[name]):
            flipped += 1
            try:
                read(name, changed)
                kept.append(i)
            except Damage:
                pass
        out("%s alone: flipped %d, reported %d, not seen%s" % (
            name, flipped, flipped - len(kept), " in [%d, %d]" % (kept[0], kept[-1]) if kept else ": none"))


# ---- the command line ------------------------------------------------------------------------------

def read_folder(path):
    files = {}
    for name in os.listdir(path):
        if os.path.isfile(os.path.join(path, name)):
            with open(os.path.join(path, name), "rb") as file:
                files[name] = file.read()
    return files


def open_path(path):
    """A whole store or one file; both describe themselves and give rows."""
    if os.path.isdir(path):
        return Store(read_folder(path))
    with open(path, "rb") as file:
        data = file.read()
    name = os.path.basename(path)
    return reader_of(name, data, lambda: read_folder(os.path.dirname(path) or "."))(name, data)


def serve():
    for line in sys.stdin:
        ask, path = line.startswith("? "), line.rstrip("\n").removeprefix("? ")
        try:
            found = open_path(path)
            rows, end = list(found.facts() if ask else found.rows()), "ok"
        except (Damage, OSError) as damage:
            rows, end = [], "damaged: %s" % damage
        for row in rows + [end]:
            print(row)
        sys.stdout.flush()
    return 0


def read_path(path, mode):
    if mode == "--flip":
        need(os.path.isdir(path), "expected a folder")
        flip_files(read_folder(path), print)
        need(flip_store(read_folder(path), print), "changed bytes were not seen")
    elif mode == "--rows":
        for row in open_path(path).rows():
            print(row)
    else:
        open_path(path).describe(print, mode == "--dump")


def main(args):
    mode = args.pop(0) if args and args[0].startswith("--") else ""
    if mode == "--serve":
        return serve()
    if mode not in ("", "--dump", "--rows", "--flip") or not args:
        print(__doc__, file=sys.stderr)
        return 2
    for path in args:
        try:
            read_path(path, mode)
        except (Damage, OSError) as damage:
            print("%s: %s" % (path, damage), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
