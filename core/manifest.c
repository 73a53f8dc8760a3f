/* manifest.c: the numbered file that describes a whole store.
**
**     manifest-…05    manifest-…06    manifest-…07        <- newest: the state of the store
**     boundary 5      boundary 5      boundary 6
**                                     cursor, count, epochs, table files
**
** Bytes, all numbers little-endian (FORMAT.md, "Manifests"):
**
**     magic, version, fixed fields | column ids | declaration | epochs | files
**     | u64 bytes of the whole file | u64 XXH3 of all before it | end magic
**
** Validity: a file counts only if both magics stand where they belong, its own size is written in
** it, the checksum fits under the seed (store, 0, number), and every rule of breaks_rule holds. The
** seed binds the bytes to one store and one number: a manifest under another's name never parses.
**
** Chain: N+1 is computed from N (mw_manifest_copy) and created exclusively. So of all who computed
** a successor of N one wins; the others see MW_EXISTS and start again from the winner's. That is
** the only lock between writers that matters, and one that an object store can give as well.
**
** Crash: mw_env_publish gives the name only to a whole, synced file. A manifest that is there is
** whole; one cut short or flipped is damage that is named, and never read as an older state or an
** empty store.
**
** Why not a log of edits (LevelDB): replaying edits makes the state depend on all files before, and
** appending is what shared storage cannot do. A manifest of a hundred files has some 10 KB.
**
** The rules are checked by one function, before a manifest is written and after it is read. */
#include "manifest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hash.h"

#define MANIFEST_MAGIC     "MWMANIF\n"
#define MANIFEST_MAGIC_END "\nMWMEND\n"
#define NAME_START         "manifest-"

enum {
    MANIFEST_VERSION = 3,
    MANIFEST_OLDEST = 2, /* without the pledge */
    MAGIC_BYTES = 8,

    HEADER_BYTES = MAGIC_BYTES + 2 * 4 + 16 + 9 * 8 + 5 * 4, /* at least, up to the column ids */
    COLUMN_BYTES = 4,
    EPOCH_BYTES = 3 * 8 + 4,
    FILE_BYTES = 9 * 8 + 2 * 4, /* before its keys */
    TRAILER_SIZE = 0,           /* u64  bytes of the whole file           */
    TRAILER_CHECKSUM = 8,       /* u64  of everything before it           */
    TRAILER_MAGIC = 16,         /* last, so `tail -c 8` recognises a file */
    TRAILER_BYTES = 24,

    /* Limits of the format. */
    DECLARATION_BYTES_MAX = 1 << 20,
    EPOCHS_MAX = 1 << 16,
    FILES_MAX = 1 << 16,
    LEVEL_MAX = 15,
    MANIFEST_BYTES_MAX = 1 << 30,
};
static_assert(TRAILER_MAGIC + MAGIC_BYTES == TRAILER_BYTES, "the magic closes the file");
static_assert(sizeof(MANIFEST_MAGIC) - 1 == MAGIC_BYTES, "a magic has 8 bytes");
static_assert(sizeof(MANIFEST_MAGIC_END) - 1 == MAGIC_BYTES, "a magic has 8 bytes");
static_assert(sizeof(NAME_START) + MW_HEX_DIGITS <= MW_MANIFEST_NAME_BYTES, "a name fits");

/* ---- names ---------------------------------------------------------------------------------- */

void mw_manifest_name(uint64_t number, char name[MW_MANIFEST_NAME_BYTES])
{
    snprintf(name, MW_MANIFEST_NAME_BYTES, NAME_START "%016" PRIx64, number);
}

bool mw_manifest_parse_name(const char *name, uint64_t *number)
{
    size_t start = sizeof(NAME_START) - 1;
    if (strncmp(name, NAME_START, start) != 0) return false;
    if (strlen(name) != start + MW_HEX_DIGITS) return false;
    return mw_get_hex(name + start, number) && *number > 0; /* they count from 1 */
}

/* ---- rules ---------------------------------------------------------------------------------- */

/* What is wrong with a manifest: "expected this, found that". */
typedef struct finding {
    char text[200];
} finding;

/* Fills the fault and returns true: for `return breaks(...)`. */
static bool breaks(finding *fault, const char *format, ...) MW_PRINTF(2, 3);
static bool breaks(finding *fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return true;
}

static bool schema_breaks_rule(const mw_schema *schema, finding *fault)
{
    if (schema->key < MW_KEY_INTEGER || schema->key > MW_KEY_ENCODED) {
        return breaks(fault, "expected key kind 1 to 3, found %u", (unsigned)schema->key);
    }
    if (schema->column_count > MW_COLUMNS_MAX) {
        return breaks(fault, "expected at most %d columns, found %" PRIu32, MW_COLUMNS_MAX,
                      schema->column_count);
    }
    if (schema->declaration.size > DECLARATION_BYTES_MAX) {
        return breaks(fault, "expected a declaration of at most %d bytes, found %zu",
                      DECLARATION_BYTES_MAX, schema->declaration.size);
    }
    uint32_t highest = 0;
    for (uint32_t i = 0; i < schema->column_count; i++) {
        uint32_t id = schema->column_ids[i];
        /* Ids mostly rise; only one that does not can be there already. */
        for (uint32_t j = 0; j < i && id <= highest; j++) {
            if (schema->column_ids[j] != id) continue;
            return breaks(fault, "found column id %" PRIu32 " twice", id);
        }
        if (id > highest) highest = id;
    }
    return false;
}

static bool epochs_break_rule(const mw_manifest *m, finding *fault)
{
    if (m->epoch_count > EPOCHS_MAX) {
        return breaks(fault, "expected at most %d epochs, found %" PRIu32, EPOCHS_MAX,
                      m->epoch_count);
    }
    uint64_t epoch = 0;
    uint64_t start = 0;
    for (uint32_t i = 0; i < m->epoch_count; i++) {
        const mw_manifest_epoch *e = &m->epochs[i];
        if (e->epoch <= epoch) {
            return breaks(fault, "expected an epoch above %" PRIu64 ", found %" PRIu64, epoch,
                          e->epoch);
        }
        epoch = e->epoch;
        if (!e->sealed) {
            if (i + 1 < m->epoch_count) {
                return breaks(fault, "found epoch %" PRIu64 " unsealed below a later one", epoch);
            }
            if (e->start || e->copied_from) {
                return breaks(fault, "expected no start of the unsealed epoch %" PRIu64, epoch);
            }
            continue;
        }
        if (e->copied_from < 1 || e->copied_from > e->start || e->start < start) {
            return breaks(fault,
                          "expected epoch %" PRIu64 " to start at or above %" PRIu64
                          " and its copies at or below, found %" PRIu64 " and %" PRIu64,
                          epoch, start, e->start, e->copied_from);
        }
        start = e->start;
    }
    return false;
}

static bool keys_break_rule(const mw_manifest *m, const mw_manifest_file *f, finding *fault)
{
    mw_slice min = f->keys.min;
    mw_slice max = f->keys.max;
    if (f->props.rows + f->props.tombstones == 0) {
        return min.size + max.size > 0 &&
               breaks(fault, "expected no keys of the empty table file %" PRIu64, f->number);
    }
    if (min.size > MW_KEY_BYTES_MAX || max.size > MW_KEY_BYTES_MAX) {
        return breaks(fault, "expected keys of at most %d bytes, found %zu and %zu",
                      MW_KEY_BYTES_MAX, min.size, max.size);
    }
    bool integer = m->schema.key == MW_KEY_INTEGER;
    if (integer && (min.size != MW_INTEGER_KEY_BYTES || max.size != MW_INTEGER_KEY_BYTES)) {
        return breaks(fault, "expected integer keys of %d bytes, found %zu and %zu",
                      MW_INTEGER_KEY_BYTES, min.size, max.size);
    }
    if (mw_slice_compare(min, max) > 0) {
        return breaks(fault, "expected keys to rise in table file %" PRIu64, f->number);
    }
    return false;
}

/* One file for itself. */
static bool file_breaks_rule(const mw_manifest *m, const mw_manifest_file *f, finding *fault)
{
    const mw_table_props *p = &f->props;
    if (f->epoch < 1 || f->epoch > mw_manifest_epoch_claimed(m)) {
        return breaks(fault, "expected a file of epoch 1 to %" PRIu64 ", found %" PRIu64,
                      mw_manifest_epoch_claimed(m), f->epoch);
    }
    if (f->number < 1 || f->number > m->table_number) {
        return breaks(fault, "expected file numbers from 1 to %" PRIu64 ", found %" PRIu64,
                      m->table_number, f->number);
    }
    if (f->level > LEVEL_MAX) {
        return breaks(fault, "expected levels up to %d, found %" PRIu32, LEVEL_MAX, f->level);
    }
    if (f->generation < 1 || f->generation > m->generation) {
        return breaks(fault, "expected generations from 1 to %" PRIu64 ", found %" PRIu64,
                      m->generation, f->generation);
    }
    if (p->bytes == 0) return breaks(fault, "found table file %" PRIu64 " of 0 bytes", f->number);
    if (p->rows > UINT64_MAX - p->tombstones) {
        return breaks(fault, "found %" PRIu64 " rows in one file", p->rows);
    }
    uint64_t versions = p->rows + p->tombstones;
    bool fits = versions == 0 ? p->sequence_min == 0 && p->sequence_max == 0
                              : p->sequence_min >= 1 && p->sequence_min <= p->sequence_max &&
                                    p->sequence_max <= m->sequence &&
                                    versions - 1 <= p->sequence_max - p->sequence_min;
    if (!fits) {
        return breaks(fault,
                      "expected the sequences of %" PRIu64 " versions up to %" PRIu64
                      ", found %" PRIu64 " to %" PRIu64,
                      versions, m->sequence, p->sequence_min, p->sequence_max);
    }
    return keys_break_rule(m, f, fault);
}

/* A file against the one before it in the list. sequence: highest of all files before. */
static bool order_breaks_rule(const mw_manifest_file *f, const mw_manifest_file *before,
                              uint64_t generation, uint64_t sequence, finding *fault)
{
    if (before && f->level > before->level) {
        return breaks(fault, "expected levels to fall, found %" PRIu32 " behind %" PRIu32, f->level,
                      before->level);
    }
    if (f->level > 0) {
        bool apart = !before || before->level > f->level ||
                     mw_slice_compare(before->keys.max, f->keys.min) < 0;
        return !apart && breaks(fault,
                                "expected table file %" PRIu64 " of level %" PRIu32
                                " to begin behind the end of the one before",
                                f->number, f->level);
    }
    if (f->generation < generation) {
        return breaks(fault, "expected generation %" PRIu64 " or later, found %" PRIu64, generation,
                      f->generation);
    }
    if (f->props.sequence_max > 0 && f->props.sequence_min <= sequence) {
        return breaks(
            fault, "expected sequences above %" PRIu64 " in generation %" PRIu64 ", found %" PRIu64,
            sequence, f->generation, f->props.sequence_min);
    }
    return false;
}

static bool is_listed(const mw_manifest *m, uint32_t count, const mw_manifest_file *f)
{
    for (uint32_t i = 0; i < count; i++) {
        if (m->files[i].number == f->number && m->files[i].epoch == f->epoch) return true;
    }
    return false;
}

static bool files_break_rule(const mw_manifest *m, finding *fault)
{
    if (m->file_count > FILES_MAX) {
        return breaks(fault, "expected at most %d files, found %" PRIu32, FILES_MAX, m->file_count);
    }
    uint64_t generation = 0;
    uint64_t sequence = 0;
    uint64_t number = 0;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < m->file_count; i++) {
        const mw_manifest_file *f = &m->files[i];
        if (file_breaks_rule(m, f, fault)) return true;
        if (order_breaks_rule(f, i ? f - 1 : NULL, generation, sequence, fault)) return true;
        /* Numbers mostly rise; only one that does not can be there already. */
        if (f->number <= number && is_listed(m, i, f)) {
            return breaks(fault, "found table file %" PRIu64 " twice", f->number);
        }
        generation = mw_max(generation, f->generation);
        sequence = mw_max(sequence, f->props.sequence_max);
        number = mw_max(number, f->number);
        rows = f->props.rows > UINT64_MAX - rows ? UINT64_MAX : rows + f->props.rows;
    }
    if (m->count < 0 || (uint64_t)m->count > rows) {
        return breaks(fault, "expected a count from 0 to %" PRIu64 ", found %" PRId64, rows,
                      m->count);
    }
    return false;
}

/* Every rule of the format about what a manifest says. */
static bool breaks_rule(const mw_manifest *m, finding *fault)
{
    if (m->boundary < 1 || m->boundary > m->number) {
        return breaks(fault, "expected a boundary from 1 to %" PRIu64 ", found %" PRIu64, m->number,
                      m->boundary);
    }
    if (m->cursor == 0 && m->sequence != 0) {
        return breaks(fault, "expected sequence 0 at cursor 0, found %" PRIu64, m->sequence);
    }
    if (m->pledged.position > m->cursor) {
        return breaks(fault, "expected a pledge at or below the cursor %" PRIu64 ", found %" PRIu64,
                      m->cursor, m->pledged.position);
    }
    return schema_breaks_rule(&m->schema, fault) || epochs_break_rule(m, fault) ||
           files_break_rule(m, fault);
}

/* ---- memory --------------------------------------------------------------------------------- */

static mw_rc no_memory(mw_err *err) { return mw_fail(err, MW_NOMEM, "no memory for a manifest"); }

/* Room for one more item; the array may move. */
static bool grow(const mw_env *env, void **items, uint32_t count, uint32_t *capacity,
                 size_t item_bytes)
{
    if (count < *capacity) return true;
    uint32_t more = *capacity ? 2 * *capacity : 8;
    void *grown = mw_resize(env, *items, more * item_bytes);
    if (!grown) return false;
    *items = grown;
    *capacity = more;
    return true;
}

/* The manifest's own copy of a key. */
static bool own_key(mw_manifest *m, mw_slice *key)
{
    if (key->size == 0) {
        *key = mw_slice_of("", 0);
        return true;
    }
    uint8_t *memory = mw_arena_alloc(&m->keys, key->size);
    if (!memory) return false;
    memcpy(memory, key->data, key->size);
    key->data = memory;
    return true;
}

static bool own_keys(mw_manifest *m, mw_key_range *keys)
{
    return own_key(m, &keys->min) && own_key(m, &keys->max);
}

static bool grow_files(mw_manifest *m)
{
    void *files = m->files;
    bool done = grow(m->env, &files, m->file_count, &m->file_capacity, sizeof *m->files);
    m->files = files;
    return done;
}

static bool grow_epochs(mw_manifest *m)
{
    void *epochs = m->epochs;
    bool done = grow(m->env, &epochs, m->epoch_count, &m->epoch_capacity, sizeof *m->epochs);
    m->epochs = epochs;
    return done;
}

/* Column ids (read from ids, 4 bytes little-endian each, unless NULL: then from the schema) and
** declaration move into the manifest's own memory. */
static bool own_schema(mw_manifest *m, const mw_schema *schema, const uint8_t *ids)
{
    size_t ids_bytes = schema->column_count * sizeof(uint32_t);
    uint8_t *memory = mw_alloc(m->env, ids_bytes + schema->declaration.size);
    if (!memory) return false;
    uint32_t *own_ids = (uint32_t *)(void *)memory;
    for (uint32_t i = 0; i < schema->column_count; i++) {
        own_ids[i] = ids ? mw_get_u32(ids + i * (size_t)COLUMN_BYTES) : schema->column_ids[i];
    }
    if (schema->declaration.size) {
        memcpy(memory + ids_bytes, schema->declaration.data, schema->declaration.size);
    }
    m->schema_memory = memory;
    m->schema = *schema;
    m->schema.column_ids = own_ids;
    m->schema.declaration = mw_slice_of(memory + ids_bytes, schema->declaration.size);
    return true;
}

static mw_manifest *make(const mw_env *env)
{
    mw_manifest *m = mw_alloc_zero(env, sizeof *m);
    if (!m) return NULL;
    m->env = env;
    atomic_init(&m->refs, 1);
    mw_arena_init(&m->keys, env);
    return m;
}

mw_rc mw_manifest_create(const mw_env *env, const mw_store_id *store, const mw_schema *schema,
                         mw_manifest **manifest, mw_err *err)
{
    finding fault;
    if (schema_breaks_rule(schema, &fault)) {
        return mw_fail(err, MW_TOOBIG, "the schema breaks its rules: %s", fault.text);
    }
    mw_manifest *m = make(env);
    if (!m || !own_schema(m, schema, NULL)) {
        mw_manifest_unref(m);
        return no_memory(err);
    }
    m->store = *store;
    m->number = 1;
    m->boundary = 1;
    *manifest = m;
    return MW_OK;
}

mw_rc mw_manifest_copy(const mw_manifest *from, mw_manifest **manifest, mw_err *err)
{
    assert(from->number < UINT64_MAX);
    mw_manifest *m = make(from->env);
    if (!m) return no_memory(err);
    m->store = from->store;
    m->number = from->number + 1;
    m->boundary = from->boundary;
    m->cursor = from->cursor;
    m->sequence = from->sequence;
    m->count = from->count;
    m->generation = from->generation;
    m->table_number = from->table_number;
    m->bytes_flushed = from->bytes_flushed;
    m->bytes_merged = from->bytes_merged;
    m->pledged = from->pledged;
    size_t files_bytes = from->file_count * sizeof *from->files;
    size_t epochs_bytes = from->epoch_count * sizeof *from->epochs;
    m->files = mw_alloc(m->env, files_bytes);
    m->epochs = mw_alloc(m->env, epochs_bytes);
    if (!m->files || !m->epochs || !own_schema(m, &from->schema, NULL)) {
        mw_manifest_unref(m);
        return no_memory(err);
    }
    if (files_bytes) memcpy(m->files, from->files, files_bytes);
    if (epochs_bytes) memcpy(m->epochs, from->epochs, epochs_bytes);
    m->file_count = m->file_capacity = from->file_count;
    m->epoch_count = m->epoch_capacity = from->epoch_count;
    for (uint32_t i = 0; i < m->file_count; i++) {
        if (own_keys(m, &m->files[i].keys)) continue;
        mw_manifest_unref(m);
        return no_memory(err);
    }
    *manifest = m;
    return MW_OK;
}

mw_manifest *mw_manifest_ref(mw_manifest *manifest)
{
    atomic_fetch_add_explicit(&manifest->refs, 1, memory_order_relaxed);
    return manifest;
}

void mw_manifest_unref(mw_manifest *manifest)
{
    if (!manifest) return;
    if (atomic_fetch_sub_explicit(&manifest->refs, 1, memory_order_acq_rel) > 1) return;
    const mw_env *env = manifest->env;
    mw_free(env, manifest->files);
    mw_free(env, manifest->epochs);
    mw_free(env, manifest->schema_memory);
    mw_arena_free(&manifest->keys);
    mw_free(env, manifest);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Does a file stand before another in the list? */
static bool stands_before(const mw_manifest_file *a, const mw_manifest_file *b)
{
    if (a->level != b->level) return a->level > b->level;
    if (a->level > 0) return mw_slice_compare(a->keys.min, b->keys.min) <= 0;
    if (a->generation != b->generation) return a->generation < b->generation;
    return a->props.sequence_min <= b->props.sequence_min;
}

mw_rc mw_manifest_add_file(mw_manifest *manifest, const mw_manifest_file *file, mw_err *err)
{
    if (manifest->file_count >= FILES_MAX) {
        return mw_fail(err, MW_TOOBIG, "a store has at most %d table files", FILES_MAX);
    }
    mw_manifest_file own = *file;
    if (!grow_files(manifest) || !own_keys(manifest, &own.keys)) return no_memory(err);
    uint32_t at = manifest->file_count;
    while (at > 0 && !stands_before(&manifest->files[at - 1], file)) at--;
    mw_manifest_file *place = manifest->files + at;
    memmove(place + 1, place, (manifest->file_count - at) * sizeof *place);
    *place = own;
    manifest->file_count++;
    return MW_OK;
}

bool mw_manifest_remove_file(mw_manifest *manifest, uint64_t epoch, uint64_t number)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        mw_manifest_file *file = &manifest->files[i];
        if (file->epoch != epoch || file->number != number) continue;
        manifest->file_count--;
        memmove(file, file + 1, (manifest->file_count - i) * sizeof *file);
        return true;
    }
    return false;
}

mw_rc mw_manifest_add_epoch(mw_manifest *manifest, uint64_t epoch, mw_err *err)
{
    assert(epoch > mw_manifest_epoch_claimed(manifest));
    mw_manifest_epoch claim = {.epoch = epoch};
    uint32_t count = manifest->epoch_count;
    /* A claim that was not sealed before the next one is void. */
    if (count > 0 && !manifest->epochs[count - 1].sealed) {
        manifest->epochs[count - 1] = claim;
        return MW_OK;
    }
    if (count >= EPOCHS_MAX) {
        return mw_fail(err, MW_TOOBIG, "a store keeps at most %d epochs", EPOCHS_MAX);
    }
    if (!grow_epochs(manifest)) return no_memory(err);
    manifest->epochs[manifest->epoch_count++] = claim;
    return MW_OK;
}

uint64_t mw_manifest_epoch_claimed(const mw_manifest *manifest)
{
    return manifest->epoch_count ? manifest->epochs[manifest->epoch_count - 1].epoch : 0;
}

const mw_manifest_epoch *mw_manifest_sealed(const mw_manifest *manifest)
{
    for (uint32_t i = manifest->epoch_count; i-- > 0;) {
        if (manifest->epochs[i].sealed) return &manifest->epochs[i];
    }
    return NULL;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static void put_header(const mw_manifest *m, mw_buf *buf)
{
    mw_buf_put(buf, MANIFEST_MAGIC, MAGIC_BYTES);
    mw_buf_u32(buf, MANIFEST_VERSION);
    mw_buf_u32(buf, 0);
    mw_buf_put(buf, m->store.bytes, sizeof m->store.bytes);
    mw_buf_u64(buf, m->number);
    mw_buf_u64(buf, m->boundary);
    mw_buf_u64(buf, m->cursor);
    mw_buf_u64(buf, m->sequence);
    mw_buf_u64(buf, (uint64_t)m->count);
    mw_buf_u64(buf, m->generation);
    mw_buf_u64(buf, m->table_number);
    mw_buf_u64(buf, m->bytes_flushed);
    mw_buf_u64(buf, m->bytes_merged);
    mw_buf_u64(buf, m->pledged.position);
    mw_buf_put(buf, m->pledged.id, sizeof m->pledged.id);
    mw_buf_u32(buf, (uint32_t)m->schema.key);
    mw_buf_u32(buf, m->schema.column_count);
    mw_buf_u32(buf, (uint32_t)m->schema.declaration.size);
    mw_buf_u32(buf, m->epoch_count);
    mw_buf_u32(buf, m->file_count);
}

static void put_epoch(const mw_manifest_epoch *e, mw_buf *buf)
{
    mw_buf_u64(buf, e->epoch);
    mw_buf_u64(buf, e->start);
    mw_buf_u64(buf, e->copied_from);
    mw_buf_u32(buf, e->sealed);
}

void mw_manifest_put_props(const mw_table_props *props, mw_buf *buf)
{
    mw_buf_u64(buf, props->rows);
    mw_buf_u64(buf, props->tombstones);
    mw_buf_u64(buf, props->bytes);
    mw_buf_u64(buf, props->sequence_min);
    mw_buf_u64(buf, props->sequence_max);
    mw_buf_u64(buf, props->checksum);
}

static void put_file(const mw_manifest_file *f, mw_buf *buf)
{
    mw_buf_u64(buf, f->epoch);
    mw_buf_u64(buf, f->number);
    mw_buf_u32(buf, f->level);
    mw_buf_u64(buf, f->generation);
    mw_manifest_put_props(&f->props, buf);
    mw_buf_u32(buf, (uint32_t)f->keys.min.size);
    mw_buf_u32(buf, (uint32_t)f->keys.max.size);
    mw_buf_put_slice(buf, f->keys.min);
    mw_buf_put_slice(buf, f->keys.max);
}

mw_rc mw_manifest_encode(const mw_manifest *manifest, mw_buf *buf, mw_err *err)
{
    finding fault;
    if (breaks_rule(manifest, &fault)) {
        return mw_fail(err, MW_MISUSE, "manifest %" PRIu64 " would break its rules: %s",
                       manifest->number, fault.text);
    }
    assert(buf->size == 0);
    put_header(manifest, buf);
    const mw_schema *schema = &manifest->schema;
    for (uint32_t i = 0; i < schema->column_count; i++) mw_buf_u32(buf, schema->column_ids[i]);
    mw_buf_put_slice(buf, schema->declaration);
    for (uint32_t i = 0; i < manifest->epoch_count; i++) put_epoch(&manifest->epochs[i], buf);
    for (uint32_t i = 0; i < manifest->file_count; i++) put_file(&manifest->files[i], buf);
    mw_buf_u64(buf, buf->size + TRAILER_BYTES);
    mw_rc rc = mw_buf_check(buf, err);
    if (rc != MW_OK) return rc; /* no checksum over what is not there */
    if (buf->size > MANIFEST_BYTES_MAX - TRAILER_BYTES) {
        return mw_fail(err, MW_TOOBIG, "a manifest of %zu bytes, expected at most %d", buf->size,
                       MANIFEST_BYTES_MAX);
    }
    uint64_t seed = mw_hash_seed(&manifest->store, 0, manifest->number);
    mw_buf_u64(buf, mw_hash(buf->data, buf->size, seed));
    mw_buf_put(buf, MANIFEST_MAGIC_END, MAGIC_BYTES);
    return mw_buf_check(buf, err);
}

/* ---- decoding ------------------------------------------------------------------------------- */

/* Sizes of the parts behind the fixed fields. */
typedef struct part_sizes {
    uint32_t declaration_bytes;
    uint32_t epoch_count;
    uint32_t file_count;
} part_sizes;

/* Proves that the content is one whole manifest file of the store and number that it says, before
** anything else in it is believed. */
static mw_rc check_envelope(mw_slice content, const char *name, mw_err *err)
{
    const uint8_t *data = content.data;
    const size_t least = HEADER_BYTES + TRAILER_BYTES;
    MW_CHECK_DISK(content.size >= least, err, name, 0, "expected at least %zu bytes, found %zu",
                  least, content.size);
    MW_CHECK_DISK(memcmp(data, MANIFEST_MAGIC, MAGIC_BYTES) == 0, err, name, 0,
                  "expected the magic of a manifest, found other bytes");
    size_t trailer = content.size - TRAILER_BYTES;
    MW_CHECK_DISK(memcmp(data + trailer + TRAILER_MAGIC, MANIFEST_MAGIC_END, MAGIC_BYTES) == 0, err,
                  name, trailer + TRAILER_MAGIC,
                  "expected the magic of a manifest's end, found other bytes");
    uint64_t size = mw_get_u64(data + trailer + TRAILER_SIZE);
    MW_CHECK_DISK(size == content.size, err, name, trailer,
                  "expected the file's size, %zu bytes, found %" PRIu64, content.size, size);
    mw_store_id store;
    memcpy(store.bytes, data + MAGIC_BYTES + 2 * 4, sizeof store.bytes);
    uint64_t number = mw_get_u64(data + MAGIC_BYTES + 2 * 4 + sizeof store.bytes);
    uint64_t found = mw_get_u64(data + trailer + TRAILER_CHECKSUM);
    uint64_t expected = mw_hash(data, trailer + TRAILER_CHECKSUM, mw_hash_seed(&store, 0, number));
    MW_CHECK_DISK(found == expected, err, name, trailer + TRAILER_CHECKSUM,
                  "expected checksum %016" PRIx64 ", found %016" PRIx64, expected, found);
    uint64_t named;
    MW_CHECK_DISK(!mw_manifest_parse_name(name, &named) || named == number, err, name, 0,
                  "expected the manifest of its name, found number %" PRIu64, number);
    return MW_OK;
}

static void get_pledged(mw_scan *scan, mw_pledged *pledged)
{
    pledged->position = mw_scan_u64(scan);
    mw_slice id = mw_scan_take(scan, sizeof pledged->id);
    if (id.size) memcpy(pledged->id, id.data, sizeof pledged->id);
}

static void get_header(mw_scan *scan, uint32_t version, mw_manifest *m, part_sizes *sizes)
{
    memcpy(m->store.bytes, mw_scan_take(scan, sizeof m->store.bytes).data, sizeof m->store.bytes);
    m->number = mw_scan_u64(scan);
    m->boundary = mw_scan_u64(scan);
    m->cursor = mw_scan_u64(scan);
    m->sequence = mw_scan_u64(scan);
    m->count = (int64_t)mw_scan_u64(scan);
    m->generation = mw_scan_u64(scan);
    m->table_number = mw_scan_u64(scan);
    m->bytes_flushed = mw_scan_u64(scan);
    m->bytes_merged = mw_scan_u64(scan);
    if (version > MANIFEST_OLDEST) get_pledged(scan, &m->pledged);
    m->schema.key = (mw_key_kind)mw_scan_u32(scan);
    m->schema.column_count = mw_scan_u32(scan);
    sizes->declaration_bytes = mw_scan_u32(scan);
    sizes->epoch_count = mw_scan_u32(scan);
    sizes->file_count = mw_scan_u32(scan);
}

static void get_epoch(mw_scan *scan, mw_manifest_epoch *e, uint32_t *sealed)
{
    e->epoch = mw_scan_u64(scan);
    e->start = mw_scan_u64(scan);
    e->copied_from = mw_scan_u64(scan);
    *sealed = mw_scan_u32(scan);
    e->sealed = *sealed != 0;
}

void mw_manifest_get_props(mw_scan *scan, mw_table_props *props)
{
    props->rows = mw_scan_u64(scan);
    props->tombstones = mw_scan_u64(scan);
    props->bytes = mw_scan_u64(scan);
    props->sequence_min = mw_scan_u64(scan);
    props->sequence_max = mw_scan_u64(scan);
    props->checksum = mw_scan_u64(scan);
}

static void get_file(mw_scan *scan, mw_manifest_file *f)
{
    f->epoch = mw_scan_u64(scan);
    f->number = mw_scan_u64(scan);
    f->level = mw_scan_u32(scan);
    f->generation = mw_scan_u64(scan);
    mw_manifest_get_props(scan, &f->props);
    uint32_t min_bytes = mw_scan_u32(scan);
    uint32_t max_bytes = mw_scan_u32(scan);
    f->keys.min = mw_scan_take(scan, min_bytes);
    f->keys.max = mw_scan_take(scan, max_bytes);
}

/* The parts behind the fixed fields, for which there is room but for the files' keys. */
static mw_rc get_parts(mw_scan *scan, const part_sizes *sizes, mw_manifest *m, const char *name,
                       mw_err *err)
{
    mw_slice ids = mw_scan_take(scan, (uint64_t)m->schema.column_count * COLUMN_BYTES);
    mw_schema schema = m->schema;
    schema.declaration = mw_scan_take(scan, sizes->declaration_bytes);
    m->files = mw_alloc(m->env, sizes->file_count * sizeof *m->files);
    m->epochs = mw_alloc(m->env, sizes->epoch_count * sizeof *m->epochs);
    if (!m->files || !m->epochs || !own_schema(m, &schema, ids.data)) return no_memory(err);
    m->file_count = m->file_capacity = sizes->file_count;
    m->epoch_count = m->epoch_capacity = sizes->epoch_count;
    for (uint32_t i = 0; i < m->epoch_count; i++) {
        uint32_t sealed;
        get_epoch(scan, &m->epochs[i], &sealed);
        MW_CHECK_DISK(sealed <= 1, err, name, 0, "expected sealed to be 0 or 1, found %" PRIu32,
                      sealed);
    }
    for (uint32_t i = 0; i < m->file_count; i++) {
        get_file(scan, &m->files[i]);
        if (!scan->failed && !own_keys(m, &m->files[i].keys)) return no_memory(err);
    }
    MW_CHECK_DISK(!scan->failed && mw_scan_left(scan) == 0, err, name, HEADER_BYTES,
                  "expected the files' keys to end where the trailer begins");
    return MW_OK;
}

static mw_rc get_manifest(mw_slice content, const char *name, mw_manifest *m, mw_err *err)
{
    mw_scan scan = mw_scan_of(mw_slice_of(content.data, content.size - TRAILER_BYTES));
    mw_scan_take(&scan, MAGIC_BYTES);
    uint32_t version = mw_scan_u32(&scan);
    uint32_t zero = mw_scan_u32(&scan);
    if (version < MANIFEST_OLDEST || version > MANIFEST_VERSION) {
        return mw_fail(err, MW_UNSUPPORTED, "%s has format version %" PRIu32 ", expected %d to %d",
                       name, version, MANIFEST_OLDEST, MANIFEST_VERSION);
    }
    MW_CHECK_DISK(zero == 0, err, name, MAGIC_BYTES + 4, "expected 0, found %" PRIu32, zero);
    part_sizes sizes;
    get_header(&scan, version, m, &sizes);
    uint64_t expected = (uint64_t)m->schema.column_count * COLUMN_BYTES + sizes.declaration_bytes +
                        (uint64_t)sizes.epoch_count * EPOCH_BYTES +
                        (uint64_t)sizes.file_count * FILE_BYTES;
    MW_CHECK_DISK(expected <= mw_scan_left(&scan), err, name, HEADER_BYTES,
                  "expected %" PRIu64 " bytes of columns, epochs and files, found %zu", expected,
                  mw_scan_left(&scan));
    mw_rc rc = get_parts(&scan, &sizes, m, name, err);
    if (rc != MW_OK) return rc;
    finding fault;
    MW_CHECK_DISK(!breaks_rule(m, &fault), err, name, 0, "%s", fault.text);
    return MW_OK;
}

mw_rc mw_manifest_decode(const mw_env *env, mw_slice content, const char *name,
                         mw_manifest **manifest, mw_err *err)
{
    mw_rc rc = check_envelope(content, name, err);
    if (rc != MW_OK) return rc;
    mw_manifest *m = make(env);
    if (!m) return no_memory(err);
    rc = get_manifest(content, name, m, err);
    if (rc == MW_OK)
        *manifest = m;
    else
        mw_manifest_unref(m);
    return rc;
}

/* ---- files ---------------------------------------------------------------------------------- */

mw_rc mw_manifest_publish(const mw_manifest *manifest, int dir, mw_err *err)
{
    mw_buf buf;
    mw_buf_init(&buf, manifest->env);
    mw_rc rc = mw_manifest_encode(manifest, &buf, err);
    if (rc == MW_OK) {
        char name[MW_MANIFEST_NAME_BYTES];
        mw_err cause = {0};
        mw_manifest_name(manifest->number, name);
        rc = mw_env_publish(manifest->env, dir, name, mw_buf_slice(&buf), &cause);
        /* A peer removes a temporary file only when the number is taken, or has been
        ** (leftovers.c). */
        if (rc == MW_MISSING) rc = MW_EXISTS;
        if (rc != MW_OK && rc != MW_EXISTS && err && err->rc == MW_OK) *err = cause;
    }
    mw_buf_free(&buf);
    return rc;
}

mw_rc mw_manifest_load(const mw_env *env, int dir, uint64_t number, const mw_store_id *store,
                       mw_manifest **manifest, mw_err *err)
{
    char name[MW_MANIFEST_NAME_BYTES];
    mw_manifest_name(number, name);
    uint8_t *content = NULL;
    size_t bytes = 0;
    mw_rc rc = mw_env_read_file(env, dir, name, MANIFEST_BYTES_MAX, &content, &bytes, err);
    if (rc != MW_OK) return rc;
    mw_manifest *m = NULL;
    rc = mw_manifest_decode(env, mw_slice_of(content, bytes), name, &m, err);
    mw_free(env, content);
    if (rc != MW_OK) return rc;
    if (store && memcmp(store->bytes, m->store.bytes, sizeof store->bytes) != 0) {
        mw_manifest_unref(m);
        return mw_fail(err, MW_MISMATCH, "%s belongs to another store", name);
    }
    *manifest = m;
    return MW_OK;
}

static int note_number(void *arg, const char *name)
{
    mw_manifest_range *range = arg;
    uint64_t number;
    if (!mw_manifest_parse_name(name, &number)) return 0;
    range->lowest = range->newest ? mw_min(range->lowest, number) : number;
    range->newest = mw_max(range->newest, number);
    return 0;
}

mw_rc mw_manifest_list(const mw_env *env, int dir, mw_manifest_range *range, mw_err *err)
{
    mw_manifest_range found = {0};
    int sys = mw_env_list(env, dir, note_number, &found);
    /* Half a list is no list: a name that it left out may be the newest one. */
    if (sys) return mw_fail_sys(err, sys, "listing", "the store's folder");
    *range = found;
    return MW_OK;
}

mw_rc mw_manifest_newest(const mw_env *env, int dir, uint64_t *number, mw_err *err)
{
    mw_manifest_range range = {0};
    mw_rc rc = mw_manifest_list(env, dir, &range, err);
    if (rc == MW_OK) *number = range.newest;
    return rc;
}

mw_rc mw_manifest_load_newest(const mw_env *env, int dir, const mw_store_id *store,
                              mw_manifest **manifest, mw_err *err)
{
    enum { TRIES = 20 }; /* each lost to a flush or merge that was quicker than a read */
    mw_err cause = {0};
    uint64_t before = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t number = 0;
        mw_rc rc = mw_manifest_newest(env, dir, &number, err);
        if (rc != MW_OK) return rc;
        if (number == before && i > 0) break; /* nobody has moved: it is gone for good */
        before = number;
        if (number == 0) continue; /* the list may have missed both */
        cause = (mw_err){0};
        rc = mw_manifest_load(env, dir, number, store, manifest, &cause);
        if (rc == MW_OK) return MW_OK;
        if (rc != MW_MISSING) return mw_fail_as(err, &cause);
    }
    if (before == 0) return mw_fail(err, MW_MISSING, "the folder holds no manifest");
    return mw_fail(err, MW_MISSING, "%s", cause.text);
}
