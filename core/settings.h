/* settings.h: options that change while the store is open (mw_db_set_options in db.h). */
#ifndef MW_SETTINGS_H
#define MW_SETTINGS_H

#include "store.h"

mw_rc mw_settings_change(mw_store *store, const mw_options *from, const mw_options *to,
                         uint64_t wait_ms, mw_err *err) MW_MUST_USE;

#endif
