/* counters.h: failing, time, files, and what was written to the disk. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double bytes_found;

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

static double bytes_on_disk(const char *folder)
{
    bytes_found = 0;
    if (nftw(folder, add_size, 16, FTW_PHYS)) give_up("%s: %s", folder, strerror(errno));
    return bytes_found;
}

static void empty_folder(const char *folder)
{
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT) {
        give_up("removing %s: %s", folder, strerror(errno));
    }
    if (mkdir(folder, 0777)) give_up("%s: %s", folder, strerror(errno));
}

/* What has been written so far: by the disk's own counter, which sees the whole machine, and by
** this process's. 0 where there is no such counter. */
typedef struct written {
    double disk;
    double process;
} written;

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

static double process_counter(void)
{
    char line[128];
    long long bytes = 0;
    FILE *file = fopen("/proc/self/io", "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "write_bytes: %lld", &bytes) == 1) break;
    }
    fclose(file);
    return (double)bytes;
}

static written look_at_counters(const char *folder)
{
    sync();
    return (written){disk_counter(folder), process_counter()};
}

static written since(const written *before, const char *folder)
{
    written now = look_at_counters(folder);
    return (written){now.disk - before->disk, now.process - before->process};
}

#endif
