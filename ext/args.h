/* args.h: the arguments of CREATE VIRTUAL TABLE ... USING memwal(...). */
#ifndef MX_ARGS_H
#define MX_ARGS_H

#include <sqlite3ext.h>

#include "db.h"

SQLITE_EXTENSION_INIT3

/* SQLite's column affinities, by the letters that SQLite itself uses. */
enum {
    MX_AFFINITY_BLOB = 'A',
    MX_AFFINITY_TEXT = 'B',
    MX_AFFINITY_NUMERIC = 'C',
    MX_AFFINITY_INTEGER = 'D',
    MX_AFFINITY_REAL = 'E',
};

typedef struct mx_column {
    char *name;                   /* without quotes                                         */
    char *type;                   /* as written, white space folded; "" when there is none  */
    char affinity;                /* MX_AFFINITY_..                                         */
    bool not_null;                /* keys always are                                        */
    bool hidden;                  /* the word HIDDEN stands in the type                     */
    int key_part;                 /* its place in the key, from 0; -1: outside              */
    char *collation;              /* "NOCASE" or "RTRIM"; NULL: BINARY                      */
    char *default_sql;            /* the literal as written; NULL: none                     */
    sqlite3_value *default_value; /* the literal's value under the affinity; NULL: none     */
} mx_column;

typedef struct mx_args {
    mx_column *columns;
    int column_count;
    int *key;           /* column numbers of the primary key, in its order                    */
    int key_count;      /* 0: no key, the rowid is automatic                                  */
    bool rowid_alias;   /* the one key column is the rowid                                    */
    char *path;         /* option as written; NULL: the default place                         */
    bool attach;        /* no columns given: take them from the store at path                 */
    mw_options options;
    char *declaration;  /* columns and key in normal form: what the store keeps; NULL: attach */
} mx_args;

/* Reads what SQLite hands to xCreate and xConnect: argv[0..2] are module, schema and table, the
** arguments follow. SQLITE_OK: *args is the caller's, mx_args_free. Else *error holds words
** ("memwal: ...") that the caller frees with sqlite3_free. Opens no file. */
int mx_args_parse(sqlite3 *db, int argc, const char *const *argv, mx_args **args, char **error);

/* The same from a declaration that a store keeps; options are the defaults. */
int mx_args_parse_declaration(sqlite3 *db, const char *declaration, mx_args **args, char **error);

void mx_args_free(mx_args *args); /* takes NULL */

/* CREATE TABLE text for sqlite3_declare_vtab; the caller's, sqlite3_free. NULL: no memory. A key of
** several columns is declared as one hidden column behind all others, number column_count: SQLite
** writes to no virtual table that has several key columns and no rowid. */
char *mx_args_declare(const mx_args *args);

#endif
