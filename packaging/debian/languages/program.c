// Stores and finds a key in a database with sub-MemTables, by the C interface alone.
#include <rocksdb/c.h>
#include <stdio.h>

int main(void) {
  char* error = NULL;
  size_t size = 0;
  rocksdb_options_t* const base = rocksdb_options_create();
  rocksdb_options_t* const options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(base, 1);
  rocksdb_get_options_from_string(base, "memtable_factory=cairn.SubMemTable", options, &error);
  rocksdb_t* const db = error ? NULL : rocksdb_open(options, "/tmp/db_c", &error);
  if (!error) rocksdb_put(db, rocksdb_writeoptions_create(), "key", 3, "value", 5, &error);
  char* const value = error ? NULL : rocksdb_get(db, rocksdb_readoptions_create(), "key", 3, &size, &error);
  if (error || !value) return fprintf(stderr, "%s\n", error ? error : "the key is gone"), 1;
  printf("%.*s\n", (int)size, value);
  rocksdb_close(db);
  return 0;
}
