// Preloaded into a client of the C API, gives every options object that it makes sub-MemTables in place of the skip list, as if
// the client's source said so. What the client sets itself afterwards, it gets.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct rocksdb_options_t rocksdb_options_t;

void* rocksdb_options_create(void) {
  rocksdb_options_t* (*create)(void) = (rocksdb_options_t * (*)(void)) dlsym(RTLD_NEXT, "rocksdb_options_create");
  void (*parse)(const rocksdb_options_t*, const char*, rocksdb_options_t*, char**) =
      (void (*)(const rocksdb_options_t*, const char*, rocksdb_options_t*, char**))dlsym(RTLD_NEXT,
                                                                                        "rocksdb_get_options_from_string");
  rocksdb_options_t* const options = create();
  char* error = NULL;
  parse(options, "memtable_factory=cairn.SubMemTable", options, &error);
  if (error != NULL) {
    fprintf(stderr, "sub_memtables: %s\n", error);
    abort();
  }
  return options;
}
