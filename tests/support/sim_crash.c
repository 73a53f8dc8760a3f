/* sim_crash.c: what a power cut may leave of the disk.
**
** Everything that no sync has covered is cut into parts that the disk keeps or loses on its own:
** units of writes (kept or not), truncations (likewise), the size of a file (one of a list), the
** names of a directory (how many of its changes, in order), the mapped page of a file. Where a
** file's writes reach the disk in order, its units and truncations are one part: how many of them.
** A disk state is a choice for each part: 0 is lost, the last option is kept. Choices are told
** apart by a hash of all that can be reached from the root, so that choices which come to the same
** disk count once. */
#include "sim_world.h"

#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 60000, RANDOM_TRIES_PER_STATE = 8 };

typedef enum part_kind { PART_UNIT, PART_CUT, PART_SIZE, PART_QUEUE, PART_NAMES, PART_MAP } part_kind;

typedef struct part {
    part_kind kind;
    uint32_t inode;
    uint32_t options;
    uint64_t moment;       /* unit, cut: of its write; map: of its last store */
    uint64_t offset;       /* unit: in the file; cut: size */
    uint64_t bytes;        /* unit, map                    */
    const uint8_t *data;   /* unit: borrowed from the write */
    uint64_t *sizes;       /* size: that on disk, others ascending, that which is seen */
    struct part *queue;    /* queue: units, cuts and sizes, options - 1 of them */
    uint8_t *page;         /* map */
} part;

typedef struct span {
    uint32_t first; /* of an inode's parts, which stand together */
    uint32_t count;
} span;

struct sim_plan {
    sim_fs *fs; /* borrowed from the machine */
    part *parts;
    uint32_t part_count;
    uint32_t part_capacity;
    span *spans;         /* of each inode                        */
    bool *reachable;     /* each inode: by some state            */
    uint64_t *hashes;    /* each inode without parts: its content */
    uint64_t *state_hashes; /* each inode: in the state that is looked at, 0: not known yet */
    uint16_t *choices;   /* part_count for each state            */
    uint32_t state_count;
    uint32_t cap;
    bool in_order;
    uint64_t *seen;      /* hash set, 0: free                    */
    uint32_t seen_mask;
};

void sim_plan_free(sim_plan *plan)
{
    if (!plan) return;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        free(plan->parts[i].sizes);
        free(plan->parts[i].queue);
        free(plan->parts[i].page);
    }
    free(plan->parts);
    free(plan->spans);
    free(plan->reachable);
    free(plan->hashes);
    free(plan->state_hashes);
    free(plan->choices);
    free(plan->seen);
    free(plan);
}

/* ---- parts --------------------------------------------------------------------------------- */

static part *add_part(sim_plan *plan, part_kind kind, uint32_t inode, uint32_t options)
{
    plan->parts = sim_grow(plan->parts, plan->part_count, &plan->part_capacity,
                           sizeof *plan->parts);
    part *made = &plan->parts[plan->part_count++];
    *made = (part){.kind = kind, .inode = inode, .options = options};
    return made;
}

static void add_units(sim_plan *plan, uint32_t inode, const sim_write *write)
{
    uint64_t end = write->offset + write->bytes;
    if (write->cut) {
        part *cut = add_part(plan, PART_CUT, inode, 2);
        cut->moment = write->moment;
        cut->offset = write->offset;
    }
    if (!write->data && !write->cut && plan->in_order) { /* it has only grown */
        part *grown = add_part(plan, PART_UNIT, inode, 2);
        grown->moment = write->moment;
        grown->offset = end;
    }
    for (uint64_t at = write->offset; write->data && at < end;) {
        uint64_t next = mw_min(end, (at / SIM_UNIT_BYTES + 1) * SIM_UNIT_BYTES);
        part *unit = add_part(plan, PART_UNIT, inode, 2);
        unit->moment = write->moment;
        unit->offset = at;
        unit->bytes = next - at;
        unit->data = write->data + (at - write->offset);
        at = next;
    }
}

static int compare_sizes(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Sorts and drops what is doubled; first and last keep their places. */
static uint32_t tidy_sizes(uint64_t *sizes, uint32_t count)
{
    uint64_t first = sizes[0];
    uint64_t last = sizes[count - 1];
    uint32_t kept = 1;
    qsort(sizes, count, sizeof *sizes, compare_sizes);
    uint64_t *middle = sim_grab(count * sizeof *middle);
    memcpy(middle, sizes, count * sizeof *sizes);
    sizes[0] = first;
    for (uint32_t i = 0; i < count && kept < OPTIONS_MAX; i++) {
        bool news = i == 0 || middle[i] != middle[i - 1];
        if (news && middle[i] != first && middle[i] != last) sizes[kept++] = middle[i];
    }
    if (last != first || kept > 1) sizes[kept++] = last;
    free(middle);
    return kept;
}

/* Sizes a crash may leave: ends of writes and of units, the middle of what was only allocated,
** cuts; nothing below the one on disk but by a cut. */
static void add_sizes(sim_plan *plan, uint32_t inode, uint32_t first_unit)
{
    const sim_inode *node = plan->fs->inodes[inode];
    uint32_t unit_count = plan->part_count - first_unit;
    uint64_t *sizes = sim_grab((2 + 2 * node->write_count + unit_count) * sizeof *sizes);
    uint64_t least = node->disk.size;
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->write_count; i++) {
        if (node->writes[i].cut) least = mw_min(least, node->writes[i].offset);
    }
    sizes[count++] = node->disk.size;
    for (uint32_t i = 0; i < node->write_count; i++) {
        const sim_write *write = &node->writes[i];
        sizes[count++] = write->offset + write->bytes;
        if (!write->data && !write->cut) sizes[count++] = write->offset + write->bytes / 2;
    }
    for (uint32_t i = 0; i < unit_count; i++) {
        const part *unit = &plan->parts[first_unit + i];
        sizes[count++] = unit->offset + unit->bytes;
    }
    uint32_t possible = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] >= least) sizes[possible++] = sizes[i];
    }
    sizes[possible++] = node->cache.size;
    uint32_t kept = tidy_sizes(sizes, possible);
    add_part(plan, PART_SIZE, inode, kept)->sizes = sizes;
}

/* Makes one part of those from first on, which are an inode's. */
static void queue_parts(sim_plan *plan, uint32_t inode, uint32_t first)
{
    uint32_t count = plan->part_count - first;
    if (count >= OPTIONS_MAX) sim_give_up("too many unsynced writes", "of one file");
    part *queue = sim_grab(count * sizeof *queue);
    if (count) memcpy(queue, plan->parts + first, count * sizeof *queue);
    plan->part_count = first;
    add_part(plan, PART_QUEUE, inode, count + 1)->queue = queue;
}

/* The kernel writes a page whole, with all that was written to it by then. */
static void add_mapped_page(sim_plan *plan, uint32_t inode)
{
    const sim_inode *node = plan->fs->inodes[inode];
    part *made = add_part(plan, PART_MAP, inode, 2);
    made->moment = node->map_moment;
    made->page = sim_grab(SIM_PAGE_BYTES);
    made->bytes = sim_map_page(node, made->page);
}

static void add_inode_parts(sim_plan *plan, uint32_t inode)
{
    const sim_inode *node = plan->fs->inodes[inode];
    uint32_t first = plan->part_count;
    plan->reachable[inode] = true;
    if (node->directory && node->change_count) {
        add_part(plan, PART_NAMES, inode, node->change_count + 1);
    }
    for (uint32_t i = 0; i < node->write_count; i++) add_units(plan, inode, &node->writes[i]);
    if (node->write_count && plan->in_order) queue_parts(plan, inode, first);
    else if (node->write_count) add_sizes(plan, inode, first);
    if (node->map_dirty) add_mapped_page(plan, inode);
    plan->spans[inode] = (span){first, plan->part_count - first};
    if (!node->directory) plan->hashes[inode] = sim_body_hash(&node->disk);
}

/* Everything below a directory that some state can show. */
static void add_tree(sim_plan *plan, uint32_t inode)
{
    const sim_inode *node = plan->fs->inodes[inode];
    if (plan->reachable[inode]) return;
    add_inode_parts(plan, inode);
    for (uint32_t i = 0; i < node->names_disk.count; i++) {
        add_tree(plan, node->names_disk.entries[i].inode);
    }
    for (uint32_t i = 0; i < node->change_count; i++) {
        if (node->changes[i].added) add_tree(plan, node->changes[i].entry.inode);
    }
}

/* ---- one state ----------------------------------------------------------------------------- */

static void put_part(sim_body *body, const part *put)
{
    if (put->kind == PART_CUT) sim_body_resize(body, put->offset);
    else if (put->data) sim_body_write(body, put->offset, put->data, put->bytes);
    else if (put->offset > body->size) sim_body_resize(body, put->offset);
}

static sim_body body_of(const sim_plan *plan, const uint16_t *choice, uint32_t inode)
{
    sim_body body = sim_body_copy(&plan->fs->inodes[inode]->disk);
    span own = plan->spans[inode];
    for (uint32_t i = own.first; i < own.first + own.count; i++) {
        const part *part_i = &plan->parts[i];
        if (part_i->kind == PART_SIZE) {
            sim_body_resize(&body, part_i->sizes[choice[i]]);
        } else if (part_i->kind == PART_QUEUE) {
            for (uint32_t j = 0; j < choice[i]; j++) put_part(&body, &part_i->queue[j]);
        } else if (part_i->kind == PART_MAP) { /* the last: a page makes no file longer */
            uint64_t bytes = mw_min(part_i->bytes, body.size);
            if (choice[i]) sim_body_write(&body, 0, part_i->page, bytes);
        } else if (choice[i]) {
            put_part(&body, part_i);
        }
    }
    return body;
}

static sim_names names_of(const sim_plan *plan, const uint16_t *choice, uint32_t inode)
{
    const sim_inode *node = plan->fs->inodes[inode];
    sim_names names = sim_names_copy(&node->names_disk);
    uint32_t changes = plan->spans[inode].count ? choice[plan->spans[inode].first] : 0;
    for (uint32_t i = 0; i < changes; i++) {
        sim_names_set(&names, node->changes[i].added, &node->changes[i].entry);
    }
    return names;
}

static uint64_t hash_text(uint64_t seed, const char *text)
{
    for (; *text; text++) seed = sim_mix(seed, (uint8_t)*text);
    return seed;
}

static uint64_t hash_inode(sim_plan *plan, const uint16_t *choice, uint32_t inode);

static uint64_t hash_names(sim_plan *plan, const uint16_t *choice, uint32_t inode)
{
    uint64_t sum = 3; /* a sum: the order of names does not count */
    sim_names names = names_of(plan, choice, inode);
    for (uint32_t i = 0; i < names.count; i++) {
        const sim_entry *entry = &names.entries[i];
        sum += hash_text(hash_inode(plan, choice, entry->inode), entry->name);
    }
    free(names.entries);
    return sum;
}

static uint64_t hash_inode(sim_plan *plan, const uint16_t *choice, uint32_t inode)
{
    uint64_t *known = &plan->state_hashes[inode];
    if (*known) return *known;
    if (plan->fs->inodes[inode]->directory) {
        *known = hash_names(plan, choice, inode);
    } else if (plan->spans[inode].count == 0) {
        *known = plan->hashes[inode];
    } else {
        sim_body body = body_of(plan, choice, inode);
        *known = sim_body_hash(&body);
        sim_body_free(&body);
    }
    return *known;
}

/* Puts a hash into the set; false when it was in. */
static bool note_hash(sim_plan *plan, uint64_t hash)
{
    if (hash == 0) hash = 1;
    uint32_t at = (uint32_t)hash & plan->seen_mask;
    while (plan->seen[at]) {
        if (plan->seen[at] == hash) return false;
        at = (at + 1) & plan->seen_mask;
    }
    plan->seen[at] = hash;
    return true;
}

static bool plan_full(const sim_plan *plan)
{
    return plan->state_count >= plan->cap;
}

/* Adds a state unless it is there. Returns whether it was new. */
static bool add_state(sim_plan *plan, const uint16_t *choice)
{
    if (plan_full(plan)) return false;
    memset(plan->state_hashes, 0, plan->fs->inode_count * sizeof *plan->state_hashes);
    if (!note_hash(plan, hash_inode(plan, choice, 0))) return false;
    if (plan->part_count) {
        memcpy(plan->choices + (size_t)plan->state_count * plan->part_count, choice,
               plan->part_count * sizeof *choice);
    }
    plan->state_count++;
    return true;
}

/* ---- which states -------------------------------------------------------------------------- */

static void set_all(const sim_plan *plan, uint16_t *choice, bool keep)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        choice[i] = keep ? (uint16_t)(plan->parts[i].options - 1) : 0;
    }
}

static void set_span(const sim_plan *plan, uint16_t *choice, span own, bool keep)
{
    for (uint32_t i = own.first; i < own.first + own.count; i++) {
        choice[i] = keep ? (uint16_t)(plan->parts[i].options - 1) : 0;
    }
}

/* As counting does, the first part fastest. */
static void add_product(sim_plan *plan, uint16_t *choice)
{
    set_all(plan, choice, false);
    for (;;) {
        add_state(plan, choice);
        uint32_t i = 0;
        while (i < plan->part_count && choice[i] + 1u == plan->parts[i].options) choice[i++] = 0;
        if (i == plan->part_count) return;
        choice[i]++;
    }
}

/* What a disk has that wrote everything in order and stopped after a moment. */
static uint16_t choice_at(const sim_plan *plan, const part *part_i, uint64_t moment)
{
    const sim_inode *node = plan->fs->inodes[part_i->inode];
    uint16_t option = 0;
    if (part_i->kind == PART_UNIT || part_i->kind == PART_CUT || part_i->kind == PART_MAP) {
        return part_i->moment <= moment;
    }
    if (part_i->kind == PART_QUEUE) {
        while (option + 1u < part_i->options && part_i->queue[option].moment <= moment) option++;
        return option;
    }
    if (part_i->kind == PART_NAMES) {
        while (option < node->change_count && node->changes[option].moment <= moment) option++;
        return option;
    }
    uint64_t size = node->disk.size;
    for (uint32_t i = 0; i < node->write_count; i++) {
        const sim_write *write = &node->writes[i];
        if (write->moment > moment) break;
        size = write->cut ? write->offset : mw_max(size, write->offset + write->bytes);
    }
    while (option + 1u < part_i->options && part_i->sizes[option] != size) option++;
    return option;
}

static void add_moment(sim_plan *plan, uint16_t *choice, uint64_t moment)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        choice[i] = choice_at(plan, &plan->parts[i], moment);
    }
    add_state(plan, choice);
}

static void add_moments(sim_plan *plan, uint16_t *choice)
{
    for (uint32_t i = 0; i < plan->part_count && !plan_full(plan); i++) {
        const part *part_i = &plan->parts[i];
        const sim_inode *node = plan->fs->inodes[part_i->inode];
        uint32_t writes = part_i->kind == PART_SIZE ? node->write_count : 0;
        uint32_t changes = part_i->kind == PART_NAMES ? node->change_count : 0;
        if (part_i->kind == PART_MAP) add_moment(plan, choice, part_i->moment);
        for (uint32_t j = 0; j < writes; j++) add_moment(plan, choice, node->writes[j].moment);
        for (uint32_t j = 0; j < changes; j++) add_moment(plan, choice, node->changes[j].moment);
    }
}

/* One file or directory lost with all else kept, and the other way round. */
static void add_spans(sim_plan *plan, uint16_t *choice)
{
    for (uint32_t i = 0; i < plan->fs->inode_count; i++) {
        for (int keep = 0; keep < 2 && plan->spans[i].count; keep++) {
            set_all(plan, choice, !keep);
            set_span(plan, choice, plan->spans[i], keep);
            add_state(plan, choice);
        }
    }
}

/* One part in each of its options, all others kept or all others lost. */
static void add_singles(sim_plan *plan, uint16_t *choice, bool others_kept)
{
    for (uint32_t i = 0; i < plan->part_count && !plan_full(plan); i++) {
        set_all(plan, choice, others_kept);
        for (uint32_t option = 0; option < plan->parts[i].options; option++) {
            choice[i] = (uint16_t)option;
            add_state(plan, choice);
        }
    }
}

static void add_pairs(sim_plan *plan, uint16_t *choice)
{
    uint32_t limit = plan->cap - plan->cap / 4; /* room for random ones stays */
    for (uint32_t i = 0; i < plan->part_count; i++) {
        for (uint32_t j = i + 1; j < plan->part_count && plan->state_count < limit; j++) {
            set_all(plan, choice, true);
            choice[i] = 0;
            choice[j] = 0;
            add_state(plan, choice);
        }
    }
}

static void add_random(sim_plan *plan, uint16_t *choice)
{
    uint64_t random = 1;
    uint64_t tries = (uint64_t)plan->cap * RANDOM_TRIES_PER_STATE;
    for (; tries > 0 && !plan_full(plan); tries--) {
        random = sim_mix(random, tries);
        uint64_t kept_of_8 = 1 + random % 7;
        for (uint32_t i = 0; i < plan->part_count; i++) {
            const part *part_i = &plan->parts[i];
            random = sim_mix(random, i);
            bool keep = (random >> 40) % 8 < kept_of_8;
            uint32_t any = (uint32_t)((random >> 8) % part_i->options);
            uint32_t full = part_i->options - 1;
            /* Sizes and names are kept whole as often as a unit is; else they are anything. */
            choice[i] = (uint16_t)(keep ? full : part_i->kind == PART_UNIT ? 0 : any);
        }
        add_state(plan, choice);
    }
}

static uint64_t product_of(const sim_plan *plan)
{
    uint64_t product = 1;
    for (uint32_t i = 0; i < plan->part_count && product <= plan->cap; i++) {
        product *= plan->parts[i].options;
    }
    return product;
}

static void add_states(sim_plan *plan)
{
    uint16_t *choice = sim_grab((plan->part_count + 1) * sizeof *choice);
    if (product_of(plan) <= plan->cap) {
        add_product(plan, choice);
    } else {
        set_all(plan, choice, true);
        add_state(plan, choice);
        set_all(plan, choice, false);
        add_state(plan, choice);
        add_moments(plan, choice);
        add_spans(plan, choice);
        add_singles(plan, choice, true);
        add_singles(plan, choice, false);
        add_pairs(plan, choice);
        add_random(plan, choice);
    }
    free(choice);
}

uint32_t sim_disk_count(sim *world, uint32_t cap)
{
    sim_lock(world);
    sim_look_at_maps(world);
    sim_plan *plan = sim_grab(sizeof *plan);
    plan->fs = &world->fs;
    plan->cap = cap ? cap : 1;
    plan->in_order = world->in_order;
    plan->spans = sim_grab(world->fs.inode_count * sizeof *plan->spans);
    plan->reachable = sim_grab(world->fs.inode_count * sizeof *plan->reachable);
    plan->hashes = sim_grab(world->fs.inode_count * sizeof *plan->hashes);
    plan->state_hashes = sim_grab(world->fs.inode_count * sizeof *plan->state_hashes);
    add_tree(plan, 0);
    plan->seen_mask = 1;
    while (plan->seen_mask < 2 * plan->cap) plan->seen_mask = plan->seen_mask * 2 + 1;
    plan->seen = sim_grab((plan->seen_mask + (size_t)1) * sizeof *plan->seen);
    plan->choices = sim_grab((size_t)plan->cap * plan->part_count * sizeof *plan->choices);
    add_states(plan);
    sim_set_plan(world, plan);
    uint32_t count = plan->state_count;
    sim_unlock(world);
    return count;
}

/* ---- from a choice to a machine ------------------------------------------------------------ */

static const uint16_t *choice_of(const sim *world, uint32_t index)
{
    const sim_plan *plan = world->plan;
    if (!plan || index >= plan->state_count) sim_give_up("no such disk state", "count them first");
    return plan->choices + (size_t)index * plan->part_count;
}

sim *sim_disk_state(sim *world, uint32_t index)
{
    sim_lock(world);
    const uint16_t *choice = choice_of(world, index);
    const sim_plan *plan = world->plan;
    sim_fs fs = {0};
    for (uint32_t i = 0; i < plan->fs->inode_count; i++) {
        const sim_inode *from = plan->fs->inodes[i];
        uint32_t made = sim_fs_add_inode(&fs, from && from->directory);
        sim_inode *to = fs.inodes[made];
        if (!plan->reachable[i]) continue;
        if (from->directory) {
            to->names_disk = names_of(plan, choice, i);
            to->names_cache = sim_names_copy(&to->names_disk);
        } else {
            to->disk = body_of(plan, choice, i);
            to->cache = sim_body_copy(&to->disk);
        }
    }
    sim_fs_collect(&fs, NULL, 0);
    sim_unlock(world);
    return sim_start(&fs, NULL);
}

uint64_t sim_disk_hash(sim *world, uint32_t index)
{
    sim_lock(world);
    const uint16_t *choice = choice_of(world, index);
    sim_plan *plan = world->plan;
    memset(plan->state_hashes, 0, plan->fs->inode_count * sizeof *plan->state_hashes);
    uint64_t hash = hash_inode(plan, choice, 0);
    sim_unlock(world);
    return hash;
}

sim *sim_kill(sim *world)
{
    sim_fs fs;
    sim_lock(world);
    sim_look_at_maps(world);
    sim_fs_copy(&fs, &world->fs);
    sim_unlock(world);
    return sim_start(&fs, world->boot_id);
}

/* A name that leads to an inode, synced or not. */
static const char *name_of(const sim_fs *fs, uint32_t inode)
{
    if (inode == 0) return "/";
    for (uint32_t i = 0; i < fs->inode_count; i++) {
        const sim_inode *dir = fs->inodes[i];
        for (uint32_t j = 0; dir && j < dir->names_cache.count; j++) {
            if (dir->names_cache.entries[j].inode == inode) return dir->names_cache.entries[j].name;
        }
        for (uint32_t j = 0; dir && j < dir->change_count; j++) {
            if (dir->changes[j].entry.inode == inode) return dir->changes[j].entry.name;
        }
    }
    return "(a name on disk only)";
}

static void print_part(const sim_plan *plan, const part *part_i, uint32_t option, FILE *to)
{
    fprintf(to, "  %s: ", name_of(plan->fs, part_i->inode));
    if (part_i->kind == PART_UNIT) {
        fprintf(to, "%llu bytes at %llu are lost\n", (unsigned long long)part_i->bytes,
                (unsigned long long)part_i->offset);
    } else if (part_i->kind == PART_QUEUE) {
        fprintf(to, "%u of %u pieces are kept\n", option, part_i->options - 1);
    } else if (part_i->kind == PART_CUT) {
        fprintf(to, "the cut to %llu bytes is lost\n", (unsigned long long)part_i->offset);
    } else if (part_i->kind == PART_MAP) {
        fprintf(to, "what was stored in its mapping is lost\n");
    } else if (part_i->kind == PART_SIZE) {
        fprintf(to, "its size is %llu\n", (unsigned long long)part_i->sizes[option]);
    } else {
        fprintf(to, "%u of %u changes of names are kept\n", option, part_i->options - 1);
    }
}

void sim_disk_print(sim *world, uint32_t index, FILE *to)
{
    sim_lock(world);
    const uint16_t *choice = choice_of(world, index);
    fprintf(to, "disk state %u of %u: all is kept, but\n", index, world->plan->state_count);
    for (uint32_t i = 0; i < world->plan->part_count; i++) {
        const part *part_i = &world->plan->parts[i];
        if (choice[i] + 1u < part_i->options) print_part(world->plan, part_i, choice[i], to);
    }
    sim_unlock(world);
}
