/* counters.h: failing, time, files, memory, and what was written to the disk. */
#ifndef COUNTERS_H
#define COUNTERS_H

/* Says why and ends the program. */
__attribute__((format(printf, 1, 2), noreturn)) void give_up(const char *format, ...);

double now_s(void);

/* Room that the files of a folder take; a file that vanishes meanwhile counts or not. */
double bytes_on_disk(const char *folder);
/* How many files in it and below have names that begin so. */
int files_named(const char *folder, const char *begin);
/* Makes the folder, or removes all that is in it. */
void empty_folder(const char *folder);

/* What has been written so far: by the disk's own counter, which sees the whole machine, and by
** this process's. 0 where there is no such counter. */
typedef struct written {
    double disk;
    double process;
} written;

/* The counters as they stand; settled: once everything is on disk. */
written look_at_counters(const char *folder);
written look_at_settled_counters(const char *folder);
/* From one look to a later one. */
written written_between(const written *before, const written *now);

/* The most memory that this process has had since the last memory_watch. */
void memory_watch(void);
double memory_peak_mb(void);

#endif
