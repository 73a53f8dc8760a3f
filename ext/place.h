/* place.h: where the stores of tables are. */
#ifndef MX_PLACE_H
#define MX_PLACE_H

#include "internal.h"

enum { MX_NAME_BYTES = 33 }; /* 32 hexadecimal digits and the end */

/* The file of the table's schema, "" when it is in none. */
const char *mx_place_file(const mx_vtab *vtab);

/* 'default' | 'path' | 'ephemeral' */
const char *mx_place_word(const mx_vtab *vtab);

/* Must the shadow table keep the whole path? Not where the path option tells it together with the
** database file, which may be moved together with the store. */
bool mx_place_is_absolute(const mx_vtab *vtab);

int mx_place_random_name(char name[MX_NAME_BYTES], char **error);

/* Chooses the store of a new table: its path into vtab->path, and in the default place the name of
** its folder. Makes the folder of the default place. */
int mx_place_choose(mx_vtab *vtab, char name[MX_NAME_BYTES], char **error);

/* The path of a connected table into vtab->path. name: what the shadow table keeps, NULL: nothing.
** *known is false when it does not tell the place. */
int mx_place_find(mx_vtab *vtab, const char *name, bool *known, char **error);

/* Makes the folder at path, for those alone who may read the database file. *made is false when
** there was something; what stands in the way of making it is left for the engine to tell. */
int mx_place_make_folder(const mx_vtab *vtab, const char *path, bool *made, char **error);

/* Exactly count bytes as lower-case hexadecimal digits, and back; to has room for an end. */
void mx_place_put_hex(char *to, const uint8_t *bytes, size_t count);
bool mx_place_get_hex(const char *text, uint8_t *bytes, size_t count);

#endif
