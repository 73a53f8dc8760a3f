/* counters.c: what the machine says about time, files, memory and writes. */
#include "counters.h"

#include <errno.h>
#include <ftw.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

void give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- files ------------------------------------------------------------------------------- */

static double bytes_found; /* nftw has no argument for its caller */

static int add_size(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)path;
    (void)at;
    if (kind == FTW_F) bytes_found += (double)info->st_blocks * 512;
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

double bytes_on_disk(const char *folder)
{
    bytes_found = 0;
    if (nftw(folder, add_size, 16, FTW_PHYS)) give_up("%s: %s", folder, strerror(errno));
    return bytes_found;
}

static const char *name_begins;
static int names_found;

static int add_name(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    const char *name = path + at->base;
    names_found += kind == FTW_F && strncmp(name, name_begins, strlen(name_begins)) == 0;
    return 0;
}

int files_named(const char *folder, const char *begin)
{
    name_begins = begin;
    names_found = 0;
    if (nftw(folder, add_name, 16, FTW_PHYS)) give_up("%s: %s", folder, strerror(errno));
    return names_found;
}

void empty_folder(const char *folder)
{
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT) {
        give_up("removing %s: %s", folder, strerror(errno));
    }
    if (mkdir(folder, 0777)) give_up("%s: %s", folder, strerror(errno));
}

/* ---- writes ------------------------------------------------------------------------------ */

static double disk_counter(const char *folder)
{
    struct stat info;
    char path[64];
    long long sectors = 0;
    if (stat(folder, &info)) give_up("%s: %s", folder, strerror(errno));
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/stat", major(info.st_dev),
             minor(info.st_dev));
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%*s %*s %*s %*s %*s %*s %lld", &sectors) != 1) sectors = 0;
    fclose(file);
    return (double)sectors * 512;
}

/* The number behind a word at the beginning of a line; 0 when there is none. */
static double number_in(const char *path, const char *word)
{
    char line[128];
    double number = 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, word, strlen(word)) != 0) continue;
        number = strtod(line + strlen(word), NULL);
        break;
    }
    fclose(file);
    return number;
}

written look_at_counters(const char *folder)
{
    return (written){disk_counter(folder), number_in("/proc/self/io", "write_bytes:")};
}

written look_at_settled_counters(const char *folder)
{
    sync();
    return look_at_counters(folder);
}

written written_between(const written *before, const written *now)
{
    return (written){now->disk - before->disk, now->process - before->process};
}

/* ---- memory ------------------------------------------------------------------------------ */

/* Without the kernel's leave the peak goes on from what was before. */
void memory_watch(void)
{
    malloc_trim(0);
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

double memory_peak_mb(void) { return number_in("/proc/self/status", "VmHWM:") / 1024; }
