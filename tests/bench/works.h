/* works.h: what is measured; each puts its figures into the results. Whoever is measured first
** changes with the repeats. */
#ifndef WORKS_H
#define WORKS_H

#include <stdbool.h>

/* puts.c: W1 */
void measure_one_thread(bool memwal_first);
void measure_many_threads(bool memwal_first);

/* loads.c: W2 in ascending order; W2 in random order, then W3, W4, W5 and W7 on what was loaded;
** W6 and the json part of W4 */
void measure_ascending_loads(bool memwal_first);
void measure_small_rows(bool memwal_first);
void measure_json_rows(bool memwal_first);

/* opens.c: W8; open_as_child is the other process */
void measure_open_after_kill(bool memwal_first);
void measure_short_process(bool memwal_first);
int open_as_child(int argc, char **argv);

#endif
