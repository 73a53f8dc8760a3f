/* reads.h: W3, W4 and W5, on tables that are loaded: sides[0] is memwal, sides[1] a rowid table. */
#ifndef READS_H
#define READS_H

#include "sides.h"

void measure_point_reads(const side sides[2], bool memwal_first);
void measure_scans(const side sides[2], bool memwal_first);
void measure_json_sum(const side sides[2], bool memwal_first);
void measure_ranges(const side sides[2], bool memwal_first);

#endif
