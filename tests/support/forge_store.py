#!/usr/bin/python3
"""Damage under right checksums: what only the rules of FORMAT.md can find.

    forge_store.py FOLDER SEED [STRIDE [BEGIN]]

Changes each STRIDE-th byte of a store's manifest, table files, log and state (BEGIN: only of files
whose names begin with it), makes all checksums
right again, and asks both the second reader and the engine (MEMWAL, default build/memwal.so): either
both find the store damaged, or both give the same rows. Exit status 1 and the changes on which they
differ otherwise; 77 when a module is missing.
"""
import os
import random
import shutil
import sqlite3
import struct
import sys
import tempfile

import read_store
from read_key import key_columns, split_declaration
from read_store import Manifest, Record, Segment, State, Store, checksum_of, machine_row, numbers_of, seed_of
from read_table import BLOB, INTEGER, NULL, REAL, TEXT, Damage, Table

MEMWAL = os.path.abspath(os.environ.get("MEMWAL", "build/memwal.so"))


# ---- right checksums again -------------------------------------------------------------------------

def put_sum(data, offset, checksum):
    data[offset:offset + 8] = struct.pack("<Q", checksum)


class Sealer:
    """Knows of one file where its checksums are; `free` are the offsets that may be changed."""

    def __init__(self, name, data):
        self.name, self.data = name, data
        self.free = range(len(data))

    def without(self, *ranges):
        taken = {i for start, end in ranges for i in range(start, end)}
        return [i for i in range(len(self.data)) if i not in taken]


class ManifestSealer(Sealer):
    def __init__(self, name, data, store):
        super().__init__(name, data)
        self.seed = seed_of(store, 0, numbers_of("manifest", name)[0])
        manifest = Manifest(name, data)
        declared = manifest.header.size + 4 * manifest.column_count
        # The declaration has no meaning for the format; SQLite has its own say on it.
        self.free = self.without((len(data) - 16, len(data) - 8), (declared, declared + manifest.declared))

    def seal(self, data):
        put_sum(data, len(data) - 16, checksum_of(bytes(data[:-16]), self.seed))


class StateSealer(Sealer):
    def __init__(self, name, data, store):
        super().__init__(name, data)
        self.seed, self.free = seed_of(store, 0, 0), self.without((40, 48))

    def seal(self, data):
        put_sum(data, 40, checksum_of(bytes(data[:40]), self.seed))


class LogSealer(Sealer):
    """Every record up to the end, and the header."""

    def __init__(self, name, data, store):
        super().__init__(name, data)
        segment = Segment(name, data)
        self.seed, self.end, self.records, offset = segment.seed, segment.end, [], Segment.HEADER.size
        while offset < segment.end:
            record = Record.at(data, offset, self.seed, segment.version)
            self.records.append((record.offset, record.end))
            offset = record.end
        self.free = self.without((88, 96), (segment.end, len(data)),
                                 *((offset, offset + 16) for offset, _ in self.records))

    def seal(self, data):
        chain = checksum_of(bytes(data[:88]), self.seed)
        put_sum(data, 88, chain)
        for offset, end in self.records:
            put_sum(data, offset + 8, chain)
            chain = checksum_of(bytes(data[offset + 8:end]), self.seed)
            put_sum(data, offset, chain)


class TableSealer(Sealer):
    """All blocks that the reader verifies, inner ones first; each sum is found where it is kept."""

    def __init__(self, name, data, store):
        super().__init__(name, data)
        table = Table(name, data)
        for _ in table.versions():
            pass
        self.seed = table.seed
        blocks = {(offset, size): checksum for offset, size, checksum in table.blocks if size}
        places = {block: data.index(struct.pack("<Q", checksum)) for block, checksum in blocks.items()}
        places[0, 48] = 48
        places[len(data) - 48, 32] = len(data) - 16
        self.blocks = sorted(places.items(), key=lambda item: self.depth(item[0], places), reverse=True)
        self.free = self.without(*((at, at + 8) for at in places.values()))

    @classmethod
    def depth(cls, block, places):
        at = places[block]
        outer = [other for other in places if other[0] <= at < sum(other) and other != block]
        return 1 + cls.depth(outer[0], places) if outer else 0

    def seal(self, data):
        for (offset, size), at in self.blocks:
            put_sum(data, at, checksum_of(bytes(data[offset:offset + size]), self.seed))


def sealers_of(files):
    """Of the files of the store that count."""
    store = Store(files)
    identity = store.manifest.store
    found = [ManifestSealer(store.manifest.name, files[store.manifest.name], identity)]
    found += [TableSealer(table.name, files[table.name], identity) for table in store.tables]
    found += [LogSealer(segment.name, segment.data, identity) for segment in store.segments]
    if store.state:
        found.append(StateSealer("state", files["state"], identity))
    return found


def forge(files, sealers, sealer, offset, value):
    """The files with one byte changed and every checksum right; who names a table tells its new one."""
    data = bytearray(sealer.data)
    data[offset] = value
    sealer.seal(data)
    forged = dict(files, **{sealer.name: bytes(data)})
    if isinstance(sealer, TableSealer):
        before, after = sealer.data[-16:-8], bytes(data[-16:-8])
        for other in sealers:
            if isinstance(other, (ManifestSealer, LogSealer)) and before in other.data:
                told = bytearray(other.data.replace(before, after))
                other.seal(told)
                forged[other.name] = bytes(told)
    return forged


# ---- both judges -----------------------------------------------------------------------------------

def cell_of(value):
    kinds = {type(None): NULL, int: INTEGER, float: REAL, bytes: BLOB}
    if isinstance(value, Text):
        return TEXT, bytes(value)
    return kinds[type(value)], value


class Text(bytes):
    pass


def query_of(manifest):
    """Rows as the reader gives them: the values of the key first."""
    key = [name for name, _ in key_columns(manifest.declaration)] or ["rowid"]
    names = [part[0] for part in split_declaration(manifest.declaration.decode())]
    others = [name for name in names if name not in key + ["PRIMARY"]]
    return "SELECT %s FROM t ORDER BY %s" % (", ".join(key + others), ", ".join(key))


def ask_engine(folder, query):
    """(rows, None) or (None, what is wrong)"""
    db = sqlite3.connect(":memory:")
    db.text_factory = Text
    db.enable_load_extension(True)
    db.load_extension(MEMWAL)
    try:
        db.execute("CREATE VIRTUAL TABLE temp.t USING memwal(path = '%s')" % folder)
        rows = [machine_row([cell_of(value) for value in row]) for row in db.execute(query)]
        verdict = db.execute("SELECT memwal_check('temp.t')").fetchone()[0].decode()
        return (rows, None) if verdict == "ok" else (None, verdict)
    except sqlite3.Error as error:
        return None, str(error)
    finally:
        db.close()


def ask_reader(files, memo):
    try:
        return list(Store(files, memo).rows()), None
    except Damage as damage:
        return None, str(damage)


def write_folder(files, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def values_for(byte, dice):
    """What to put in place of a byte: one bit, one more or less, the ends."""
    choices = {byte ^ 1 << dice.randrange(8), (byte + 1) % 256, (byte - 1) % 256, 0, 255} - {byte}
    return dice.choice(sorted(choices))


def judge_all(files, folder, dice, stride, begin):
    """(judged, damaged, differences)"""
    judged = damaged = 0
    differences, memo = [], {}
    query = query_of(Store(files).manifest)
    sealers = sealers_of(files)
    for sealer in (sealer for sealer in sealers if sealer.name.startswith(begin)):
        for offset in list(sealer.free)[dice.randrange(stride)::stride]:
            value = values_for(sealer.data[offset], dice)
            forged = forge(files, sealers, sealer, offset, value)
            read = ask_reader(forged, dict(memo))
            write_folder(forged, folder)
            asked = ask_engine(folder, query)
            judged += 1
            damaged += read[0] is None
            if read[0] == asked[0]:
                continue
            differences.append("%s, byte %d: %d in place of %d: the reader: %s; the engine: %s" % (
                sealer.name, offset, value, sealer.data[offset], read[1] or "ok", asked[1] or "ok"))
    return judged, damaged, differences


def main(args):
    if len(args) not in (2, 3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    files, dice = read_store.read_folder(args[0]), random.Random(int(args[1]))
    scratch = tempfile.mkdtemp(prefix="memwal-forge-")
    try:
        stride, begin = int(args[2]) if len(args) > 2 else 1, args[3] if len(args) > 3 else ""
        found = judge_all(files, os.path.join(scratch, "store"), dice, stride, begin)
        judged, damaged, differences = found
    finally:
        shutil.rmtree(scratch)
    for words in differences:
        print(words)
    print("forged %d, damaged %d, judged otherwise %d" % (judged, damaged, len(differences)))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
