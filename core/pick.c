/* pick.c: what is to be merged next.
**
**     level 0      [g7   ][g8   ][g9   ]          may overlap
**     first level  [a..c][d..k]   [m..t]          each base level is one sorted run of files
**     deepest      [a..b][c..e][f..k][l..t]       that lie apart
**
** A job takes the oldest generations, or a file of a base level that has grown past its share, and
** those files of the level below that overlap it. What nothing overlaps is moved: it changes its
** level in the manifest, and not one byte is written.
**
** What it costs. Let b be the bytes of the generations that one merge takes, and the base q * b
** bytes. With one base level every byte of a batch costs 1 + q/2 written bytes on average, up to
** q = 8 no more than two levels would. Beyond, w levels whose sizes rise by the w-th root r of q
** cost w * (1 + r): the classical result that the factors between neighbours should be equal
** (O'Neil et al., The log-structured merge-tree, 1996). So a base starts as a single level, merged
** as a whole; when q passes 8^w it goes one level deeper, by a manifest alone, and an empty level
** opens above it. The shares are counted from the batch downwards, so the deepest level has almost
** everything, and what is obsolete above it stays a fraction 1/r of it. Both ideas are RocksDB's
** ("leveled compaction", "dynamic level bytes"); the rest is LevelDB's: the score, and the merge of
** one file with what it overlaps.
**
** b is taken from the manifest (bytes flushed by generation), not from what waits at the moment:
** the same store must not change its mind from look to look.
**
** Which file of a level that is too large: the one that overlaps the least bytes below for its own.
** It need not be fair: a file that is dear today is cheap when the level below has been cut anew.
**
** Obsolete versions make a merge due, too, before enough generations wait: where ids are written
** again and again, a store with one base level stays below one and a half times what lives. With
** more levels the shares see to that, but for tombstones: where more than half is obsolete, what
** lies above the deepest level goes down without having grown, and the room comes back.
**
** Why the order of versions stays right: of generations a prefix is taken, oldest first; a file of
** a base level goes down together with everything below that it overlaps; a move needs that it
** overlaps neither the level that it goes to nor an older generation. */
#include "pick.h"

enum {
    DEPTH_FACTOR = 8,   /* a base of more than this to the power of its levels gets another one */
    SOURCES_MAX = 32,   /* generations read at once: each has pages in memory                   */
    SMALL_PART = 4,     /* a file below this part of the limit is small: merged with neighbours */
    SMALL_TIMES = 4,    /* ... those of up to so many times what is merged anyway               */
    COMPACT_FILES = 8,  /* about so many are merged by one job of a compaction                  */
    WASTE_PART = 16,    /* of a memtable's bytes: below it obsolete versions are not worth a job */
    SCORE_DUE = 100,
};

/* How the base of a store should look. */
typedef struct shape {
    uint32_t first;  /* level that generations are merged into              */
    uint32_t wanted; /* number of levels                                    */
    uint64_t batch;  /* bytes of the generations of one merge               */
    uint64_t factor; /* share of level first + i: batch * factor^(i + 1)    */
} shape;

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t power(uint64_t base, uint32_t exponent)
{
    uint64_t product = 1;
    while (exponent-- > 0) product = multiply(product, base);
    return product;
}

static shape shape_of(const mw_manifest *manifest, const mw_levels *levels,
                      const mw_pick_limits *limits)
{
    shape s = {.first = 1, .wanted = 1, .factor = 2};
    uint64_t mean = manifest->generation ? manifest->bytes_flushed / manifest->generation : 0;
    /* Not less than this, or a habit of tiny flushes would make a tower of tiny levels. */
    mean = mw_max(mw_max(mean, limits->memtable_bytes / 8), 1);
    s.batch = multiply(mean, mw_max(limits->merge_generations, 1));
    uint64_t base = 0;
    for (uint32_t level = 1; level < MW_LEVELS_MAX; level++) base += levels->bytes[level];
    uint64_t batches = base / s.batch;
    while (s.wanted < MW_LEVELS_MAX - 2 && batches > power(DEPTH_FACTOR, s.wanted)) s.wanted++;
    while (power(s.factor, s.wanted) < batches) s.factor++;
    /* A base that has shrunk: empty levels on its top are passed over. */
    if (levels->deepest > s.wanted) {
        s.first = (uint32_t)mw_min(levels->top, levels->deepest - s.wanted + 1);
    }
    return s;
}

static uint64_t share_of(const shape *s, uint32_t level)
{
    return multiply(s->batch, power(s->factor, level - s->first + 1));
}

static const mw_manifest_file *file_at(const mw_manifest *manifest, uint32_t i)
{
    return &manifest->files[i];
}

static uint32_t end_of(mw_file_run run) { return run.first + run.count; }

static uint64_t bytes_of(const mw_manifest *manifest, mw_file_run run)
{
    uint64_t bytes = 0;
    for (uint32_t i = run.first; i < end_of(run); i++) bytes += manifest->files[i].props.bytes;
    return bytes;
}

static bool are_apart(const mw_key_range *a, const mw_key_range *b)
{
    return mw_slice_compare(a->max, b->min) < 0 || mw_slice_compare(b->max, a->min) < 0;
}

static mw_key_range range_of(const mw_manifest *manifest, mw_file_run run)
{
    mw_key_range range = manifest->files[run.first].keys;
    for (uint32_t i = run.first + 1; i < end_of(run); i++) {
        const mw_key_range *keys = &manifest->files[i].keys;
        if (mw_slice_compare(keys->min, range.min) < 0) range.min = keys->min;
        if (mw_slice_compare(keys->max, range.max) > 0) range.max = keys->max;
    }
    return range;
}

/* Is a neighbour of what is merged so small that it should be merged as well? What is small would
** stay so for ever; but where little is merged, much is not written again for that. */
static bool is_small(const mw_manifest *manifest, uint32_t file, const mw_pick_limits *limits,
                     uint64_t merged)
{
    uint64_t bytes = file_at(manifest, file)->props.bytes;
    return bytes < limits->file_bytes / SMALL_PART && bytes <= multiply(merged, SMALL_TIMES);
}

static void take_small_neighbours(const mw_manifest *manifest, mw_file_run level,
                                  const mw_pick_limits *limits, mw_pick *pick)
{
    mw_file_run *below = &pick->below;
    uint64_t merged = bytes_of(manifest, pick->above) + bytes_of(manifest, *below);
    while (below->first > level.first && is_small(manifest, below->first - 1, limits, merged)) {
        merged += file_at(manifest, --below->first)->props.bytes;
        below->count++;
    }
    while (end_of(*below) < end_of(level) && is_small(manifest, end_of(*below), limits, merged)) {
        merged += file_at(manifest, end_of(*below))->props.bytes;
        below->count++;
    }
}

/* May a file go down without being merged, but for what it overlaps? In the deepest level nothing
** is below a tombstone, so none is let in. */
static bool may_move(const mw_manifest_file *file, const mw_levels *levels, uint32_t output)
{
    return file->props.tombstones == 0 || output < levels->deepest;
}

/* Completes a job whose `above` is chosen. */
static void choose_below(const mw_manifest *manifest, const mw_levels *levels,
                         const mw_pick_limits *limits, mw_pick *pick)
{
    mw_file_run level = levels->files[pick->output];
    mw_key_range range = range_of(manifest, pick->above);
    if (level.count > 0) {
        pick->below = mw_levels_overlap(manifest, level, &range);
        take_small_neighbours(manifest, level, limits, pick);
    }
    bool alone = pick->above.count == 1 && pick->below.count == 0;
    bool move = alone && may_move(file_at(manifest, pick->above.first), levels, pick->output);
    pick->kind = move ? MW_PICK_MOVE : MW_PICK_MERGE;
}

/* ---- generations ---------------------------------------------------------------------------- */

/* How many generations are in a run to their last file? */
static uint32_t generations_in(const mw_manifest *manifest, mw_file_run run, mw_file_run level)
{
    uint32_t count = 0;
    for (uint32_t i = run.first; i < end_of(run); i++) {
        bool last = i + 1 == end_of(level) ||
                    file_at(manifest, i + 1)->generation != file_at(manifest, i)->generation;
        count += last;
    }
    return count;
}

static mw_file_run oldest_generations(const mw_manifest *manifest, mw_file_run level,
                                      const mw_pick_limits *limits, uint32_t max_generations)
{
    mw_file_run run = {level.first, 0};
    uint32_t generations = 0;
    for (uint32_t i = level.first; i < end_of(level) && run.count < SOURCES_MAX; i++) {
        const mw_manifest_file *file = file_at(manifest, i);
        bool another = run.count == 0 || file->generation != file_at(manifest, i - 1)->generation;
        if (file->generation >= limits->below) break;
        if (another && max_generations > 0 && generations == max_generations) break;
        generations += another;
        run.count++;
    }
    return run;
}

/* How many of the oldest generations overlap neither the level that they would go to nor each
** other? Small ones are better merged. */
static uint32_t movable(const mw_manifest *manifest, const mw_levels *levels,
                        const mw_pick_limits *limits, const mw_pick *pick)
{
    const mw_file_run *run = &pick->above;
    mw_file_run output = levels->files[pick->output];
    uint32_t count = 0;
    for (; count < run->count; count++) {
        const mw_manifest_file *file = file_at(manifest, run->first + count);
        if (file->props.bytes < limits->file_bytes / SMALL_PART) break;
        if (!may_move(file, levels, pick->output)) break;
        if (mw_levels_overlap(manifest, output, &file->keys).count > 0) break;
        uint32_t other = 0;
        while (other < count &&
               are_apart(&file->keys, &file_at(manifest, run->first + other)->keys)) {
            other++;
        }
        if (other < count) break;
    }
    return count;
}

static mw_pick pick_generations(const mw_manifest *manifest, const mw_levels *levels,
                                const mw_pick_limits *limits, uint32_t max_generations)
{
    mw_file_run level = levels->files[0];
    shape s = shape_of(manifest, levels, limits);
    mw_pick pick = {.output = s.first};
    pick.above = oldest_generations(manifest, level, limits, max_generations);
    if (pick.above.count == 0) return pick;
    uint32_t moves = movable(manifest, levels, limits, &pick);
    if (moves > 0) {
        pick.kind = MW_PICK_MOVE;
        pick.above.count = moves;
    } else {
        choose_below(manifest, levels, limits, &pick);
    }
    pick.generations = generations_in(manifest, pick.above, level);
    return pick;
}

/* Has the base grown so that it should be a level deeper before the next merge? */
static bool wants_depth(const mw_manifest *manifest, const mw_levels *levels,
                        const mw_pick_limits *limits, mw_pick *pick)
{
    shape s = shape_of(manifest, levels, limits);
    if (levels->deepest == 0 || s.wanted <= levels->deepest) return false;
    *pick = (mw_pick){.kind = MW_PICK_DEEPEN, .level = levels->top, .output = levels->top + 1};
    pick->above = (mw_file_run){0, manifest->file_count - levels->files[0].count};
    return true;
}

mw_pick mw_pick_generations(const mw_manifest *manifest, const mw_pick_limits *limits,
                            uint32_t max_generations)
{
    mw_levels levels;
    mw_pick pick;
    mw_levels_of(manifest, &levels);
    mw_file_run run = oldest_generations(manifest, levels.files[0], limits, max_generations);
    if (run.count > 0 && wants_depth(manifest, &levels, limits, &pick)) return pick;
    return pick_generations(manifest, &levels, limits, max_generations);
}

/* ---- what is due ---------------------------------------------------------------------------- */

/* Is more than a third of what is stored obsolete? Only where one merge of the generations mends
** that: with more levels it is bounded by their shares. */
static bool is_wasteful(const mw_manifest *manifest, const mw_levels *levels)
{
    uint64_t live = manifest->count > 0 ? (uint64_t)manifest->count : 0;
    return levels->top == levels->deepest && levels->versions > live + live / 2;
}

static uint64_t score_generations(const mw_manifest *manifest, const mw_levels *levels,
                                  const mw_pick_limits *limits)
{
    uint64_t pending = levels->files[0].count;
    uint64_t due = mw_max(limits->merge_generations, 1);
    if (pending >= due || pending == 0) return pending * SCORE_DUE / due;
    bool early = pending >= (due + 3) / 4 && is_wasteful(manifest, levels) &&
                 levels->bytes[0] >= limits->memtable_bytes / WASTE_PART;
    return early ? SCORE_DUE : pending * SCORE_DUE / due;
}

/* Is more than half of what is stored obsolete? Versions that were written over never come to that
** above the deepest level: it is tombstones, small as they are, that hide much below them. */
static bool is_mostly_dead(const mw_manifest *manifest, const mw_levels *levels)
{
    uint64_t live = manifest->count > 0 ? (uint64_t)manifest->count : 0;
    return levels->versions / 2 > live;
}

/* The base level that is most above its share, or that has to go down for what it hides; *score: 0
** where none is, as none is above the deepest. */
static uint32_t fullest(const mw_manifest *manifest, const mw_levels *levels, const shape *s,
                        uint64_t *score)
{
    uint32_t found = 0;
    bool dead = is_mostly_dead(manifest, levels);
    *score = 0;
    for (uint32_t level = s->first; level < levels->deepest; level++) {
        uint64_t share = share_of(s, level);
        bool over = levels->bytes[level] > share;
        if (levels->bytes[level] == 0 || (!over && !dead)) continue;
        uint64_t own = over ? multiply(levels->bytes[level], SCORE_DUE) / share : SCORE_DUE;
        if (own <= *score) continue;
        *score = own;
        found = level;
    }
    return found;
}

bool mw_pick_is_due(const mw_manifest *manifest, const mw_levels *levels,
                    const mw_pick_limits *limits)
{
    uint64_t score;
    if (score_generations(manifest, levels, limits) >= SCORE_DUE) return true;
    shape s = shape_of(manifest, levels, limits);
    return fullest(manifest, levels, &s, &score) > 0;
}

/* ---- base levels ---------------------------------------------------------------------------- */

/* The file whose way down costs the least for its size. */
static uint32_t cheapest(const mw_manifest *manifest, mw_file_run level, mw_file_run below)
{
    uint32_t best = level.first;
    double best_cost = 0;
    for (uint32_t i = level.first; i < end_of(level); i++) {
        const mw_manifest_file *file = file_at(manifest, i);
        mw_file_run overlap = mw_levels_overlap(manifest, below, &file->keys);
        double cost = (double)bytes_of(manifest, overlap) / (double)file->props.bytes;
        if (i > level.first && cost >= best_cost) continue;
        best = i;
        best_cost = cost;
    }
    return best;
}

/* Neighbours that overlap nothing below but what is merged anyway go along for their own bytes. */
static void take_neighbours_along(const mw_manifest *manifest, mw_file_run level, mw_pick *pick)
{
    if (pick->below.count == 0) return;
    mw_slice low = file_at(manifest, pick->below.first)->keys.min;
    mw_slice high = file_at(manifest, end_of(pick->below) - 1)->keys.max;
    while (pick->above.first > level.first &&
           mw_slice_compare(file_at(manifest, pick->above.first - 1)->keys.min, low) >= 0) {
        pick->above.first--;
        pick->above.count++;
    }
    while (end_of(pick->above) < end_of(level) &&
           mw_slice_compare(file_at(manifest, end_of(pick->above))->keys.max, high) <= 0) {
        pick->above.count++;
    }
}

static mw_pick pick_level(const mw_manifest *manifest, const mw_levels *levels,
                          const mw_pick_limits *limits, uint32_t level)
{
    mw_file_run run = levels->files[level];
    mw_pick pick = {.level = level, .output = level + 1};
    pick.above = (mw_file_run){cheapest(manifest, run, levels->files[level + 1]), 1};
    choose_below(manifest, levels, limits, &pick);
    if (pick.kind == MW_PICK_MERGE) take_neighbours_along(manifest, run, &pick);
    return pick;
}

mw_pick mw_pick_due(const mw_manifest *manifest, const mw_pick_limits *limits)
{
    mw_levels levels;
    mw_levels_of(manifest, &levels);
    shape s = shape_of(manifest, &levels, limits);
    uint64_t level_score;
    uint32_t level = fullest(manifest, &levels, &s, &level_score);
    uint64_t score = score_generations(manifest, &levels, limits);
    mw_pick pick = {.kind = MW_PICK_NOTHING};
    if (score >= SCORE_DUE && score >= level_score) {
        pick = mw_pick_generations(manifest, limits, 0);
    }
    if (pick.kind == MW_PICK_NOTHING && level > 0) {
        pick = pick_level(manifest, &levels, limits, level);
    }
    return pick;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The next base level below `level` that has files, 0: there is none. */
static uint32_t next_level(const mw_levels *levels, uint32_t level)
{
    for (level++; level < MW_LEVELS_MAX; level++) {
        if (levels->files[level].count > 0) return level;
    }
    return 0;
}

/* Neighbours from first on, as many as one job takes. */
static mw_file_run some_files(const mw_manifest *manifest, mw_file_run level, uint32_t first,
                              const mw_pick_limits *limits)
{
    mw_file_run run = {first, 1};
    uint64_t limit = multiply(limits->file_bytes, COMPACT_FILES);
    while (end_of(run) < end_of(level) && bytes_of(manifest, run) < limit) run.count++;
    return run;
}

/* A single level is what is wanted, but for the tombstones that were all that was left of lower
** levels. */
static mw_pick drop_tombstones(const mw_manifest *manifest, const mw_levels *levels,
                               const mw_pick_limits *limits)
{
    mw_pick pick = {.level = levels->deepest, .output = levels->deepest};
    mw_file_run level = levels->files[levels->deepest];
    for (uint32_t i = level.first; levels->deepest > 0 && i < end_of(level); i++) {
        if (file_at(manifest, i)->props.tombstones == 0) continue;
        pick.kind = MW_PICK_MERGE;
        pick.above = some_files(manifest, level, i, limits);
        break;
    }
    return pick;
}

mw_pick mw_pick_compact(const mw_manifest *manifest, const mw_pick_limits *limits)
{
    mw_levels levels;
    mw_levels_of(manifest, &levels);
    mw_pick pick = pick_generations(manifest, &levels, limits, 0);
    if (pick.kind != MW_PICK_NOTHING) return pick;
    if (levels.top == levels.deepest) return drop_tombstones(manifest, &levels, limits);
    pick = (mw_pick){.level = levels.top, .output = next_level(&levels, levels.top)};
    mw_file_run level = levels.files[pick.level];
    pick.above = some_files(manifest, level, level.first, limits);
    choose_below(manifest, &levels, limits, &pick);
    return pick;
}
