// A program that links no RocksDB and loads it when it runs, as Python and Java do, after another user of thread-local
// storage. It uses what the C API offers, with an engine that an option string names, from three threads: its first,
// one that was there before the library was loaded, and one that is started afterwards.
//
//   dlopen_program TLS_USER_LIBRARY ROCKSDB_LIBRARY OPTION_STRING DB_DIR

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 5000

typedef struct rocksdb_t rocksdb_t;
typedef struct rocksdb_options_t rocksdb_options_t;
typedef struct rocksdb_readoptions_t rocksdb_readoptions_t;
typedef struct rocksdb_writeoptions_t rocksdb_writeoptions_t;
typedef struct rocksdb_flushoptions_t rocksdb_flushoptions_t;

// The part of rocksdb/c.h that is used here.
static struct {
  rocksdb_options_t* (*options_create)(void);
  void (*options_destroy)(rocksdb_options_t*);
  void (*options_set_create_if_missing)(rocksdb_options_t*, unsigned char);
  void (*get_options_from_string)(const rocksdb_options_t*, const char*, rocksdb_options_t*, char**);
  rocksdb_t* (*open)(const rocksdb_options_t*, const char*, char**);
  void (*close)(rocksdb_t*);
  rocksdb_writeoptions_t* (*writeoptions_create)(void);
  void (*writeoptions_destroy)(rocksdb_writeoptions_t*);
  rocksdb_readoptions_t* (*readoptions_create)(void);
  void (*readoptions_destroy)(rocksdb_readoptions_t*);
  rocksdb_flushoptions_t* (*flushoptions_create)(void);
  void (*flushoptions_destroy)(rocksdb_flushoptions_t*);
  void (*put)(rocksdb_t*, const rocksdb_writeoptions_t*, const char*, size_t, const char*, size_t, char**);
  char* (*get)(rocksdb_t*, const rocksdb_readoptions_t*, const char*, size_t, size_t*, char**);
  void (*flush)(rocksdb_t*, const rocksdb_flushoptions_t*, char**);
  void (*free)(void*);
} api;

static void Fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void* Load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) Fail("dlopen", dlerror());
  return library;
}

static void Find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  if (found == NULL) Fail("dlsym", dlerror());
  memcpy(function, &found, sizeof(found));
}

static void FindApi(void* library) {
  Find(library, "rocksdb_options_create", &api.options_create);
  Find(library, "rocksdb_options_destroy", &api.options_destroy);
  Find(library, "rocksdb_options_set_create_if_missing", &api.options_set_create_if_missing);
  Find(library, "rocksdb_get_options_from_string", &api.get_options_from_string);
  Find(library, "rocksdb_open", &api.open);
  Find(library, "rocksdb_close", &api.close);
  Find(library, "rocksdb_writeoptions_create", &api.writeoptions_create);
  Find(library, "rocksdb_writeoptions_destroy", &api.writeoptions_destroy);
  Find(library, "rocksdb_readoptions_create", &api.readoptions_create);
  Find(library, "rocksdb_readoptions_destroy", &api.readoptions_destroy);
  Find(library, "rocksdb_flushoptions_create", &api.flushoptions_create);
  Find(library, "rocksdb_flushoptions_destroy", &api.flushoptions_destroy);
  Find(library, "rocksdb_put", &api.put);
  Find(library, "rocksdb_get", &api.get);
  Find(library, "rocksdb_flush", &api.flush);
  Find(library, "rocksdb_free", &api.free);
}

// What a thread does with the database: writes its own keys, half of them into tables, and reads them.
struct Work {
  pthread_barrier_t* loaded;  // null: the library is loaded already
  rocksdb_t** db;
  const char* prefix;
};

static void WriteAndRead(rocksdb_t* db, const char* prefix) {
  char* error = NULL;
  char key[64], value[64];
  rocksdb_writeoptions_t* const write = api.writeoptions_create();
  rocksdb_readoptions_t* const read = api.readoptions_create();
  rocksdb_flushoptions_t* const flush = api.flushoptions_create();
  for (int i = 0; i < KEYS; i++) {
    const int key_size = snprintf(key, sizeof(key), "%s-%d", prefix, i);
    const int value_size = snprintf(value, sizeof(value), "value-%d", i);
    api.put(db, write, key, (size_t)key_size, value, (size_t)value_size, &error);
    if (error != NULL) Fail("put", error);
    if (i % 1000 == 999 && i < KEYS / 2) api.flush(db, flush, &error);
    if (error != NULL) Fail("flush", error);
  }
  for (int i = 0; i < 2 * KEYS; i++) {
    const int key_size = snprintf(key, sizeof(key), "%s-%d", prefix, i);
    const int value_size = snprintf(value, sizeof(value), "value-%d", i);
    size_t size = 0;
    char* const found = api.get(db, read, key, (size_t)key_size, &size, &error);
    if (error != NULL) Fail("get", error);
    if ((found != NULL) != (i < KEYS)) Fail(key, found == NULL ? "is missing" : "was never written");
    if (found != NULL && (size != (size_t)value_size || memcmp(found, value, size) != 0)) Fail(key, "has a wrong value");
    api.free(found);
  }
  api.flushoptions_destroy(flush);
  api.readoptions_destroy(read);
  api.writeoptions_destroy(write);
}

static void* Run(void* argument) {
  const struct Work* const work = argument;
  if (work->loaded != NULL) pthread_barrier_wait(work->loaded);
  WriteAndRead(*work->db, work->prefix);
  return NULL;
}

static rocksdb_t* Open(const char* option_string, const char* path) {
  char* error = NULL;
  rocksdb_options_t* const defaults = api.options_create();
  rocksdb_options_t* const options = api.options_create();
  api.get_options_from_string(defaults, option_string, options, &error);
  if (error != NULL) Fail("get_options_from_string", error);
  api.options_set_create_if_missing(options, 1);
  rocksdb_t* const db = api.open(options, path, &error);
  if (error != NULL) Fail("open", error);
  api.options_destroy(options);
  api.options_destroy(defaults);
  return db;
}

int main(int argc, char** argv) {
  if (argc != 5) Fail("usage", "dlopen_program TLS_USER_LIBRARY ROCKSDB_LIBRARY OPTION_STRING DB_DIR");
  int (*touch)(int) = NULL;
  Find(Load(argv[1]), "TouchThreadLocals", &touch);
  touch(1);

  rocksdb_t* db = NULL;
  pthread_barrier_t loaded;
  pthread_barrier_init(&loaded, NULL, 2);
  struct Work before = {&loaded, &db, "before"}, after = {NULL, &db, "after"};
  pthread_t thread;
  if (pthread_create(&thread, NULL, Run, &before) != 0) Fail("pthread_create", "failed");

  FindApi(Load(argv[2]));
  db = Open(argv[3], argv[4]);
  pthread_barrier_wait(&loaded);
  WriteAndRead(db, "first");
  pthread_join(thread, NULL);
  if (pthread_create(&thread, NULL, Run, &after) != 0) Fail("pthread_create", "failed");
  pthread_join(thread, NULL);
  api.close(db);
  printf("%d keys read back\n", 3 * KEYS);
  return 0;
}
