/* report.h: what a store tells about itself (mw_db_stats and mw_db_files in db.h). */
#ifndef MW_REPORT_H
#define MW_REPORT_H

#include "store.h"

typedef void (*mw_report_figure)(void *arg, const char *name, const mw_value *value);
mw_rc mw_report_stats(mw_store *store, mw_report_figure each, void *arg, mw_err *err) MW_MUST_USE;

typedef void (*mw_report_file)(void *arg, const mw_file_info *file);
mw_rc mw_report_files(mw_store *store, mw_report_file each, void *arg, mw_err *err) MW_MUST_USE;

#endif
