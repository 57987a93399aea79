#!/usr/bin/env python3
"""Loads the library by ctypes into a Python that has loaded other things before, and uses it by its C API.

    dlopen_program.py TLS_USER_LIBRARY ROCKSDB_LIBRARY OPTION_STRING DB_DIR
"""
import ctypes
import decimal
import hashlib
import json
import sqlite3
import ssl
import sys

KEYS = 5000
LOADED_BEFORE = (decimal, hashlib, json, sqlite3, ssl)


class RocksDB:
    """The functions of rocksdb/c.h, each of which returns a pointer; a trailing char** is the error."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def __getattr__(self, name):
        function = getattr(self.library, "rocksdb_" + name)
        function.restype = ctypes.c_void_p

        def call(*arguments):
            return function(*[ctypes.c_void_p(a) if isinstance(a, int) and a > 0xFFFF else a for a in arguments])

        return call

    def checked(self, name, *arguments):
        error = ctypes.c_char_p()
        result = getattr(self, name)(*arguments, ctypes.byref(error))
        if error.value:
            sys.exit(f"{name}: {error.value.decode()}")
        return result


def size(number):
    return ctypes.c_size_t(number)


def main():
    tls_user, library, option_string, path = sys.argv[1:]
    ctypes.CDLL(tls_user).TouchThreadLocals(1)
    rocksdb = RocksDB(library)
    options = rocksdb.options_create()
    rocksdb.checked("get_options_from_string", rocksdb.options_create(), option_string.encode(), options)
    rocksdb.options_set_create_if_missing(options, ctypes.c_ubyte(1))
    db = rocksdb.checked("open", options, path.encode())
    write, read = rocksdb.writeoptions_create(), rocksdb.readoptions_create()
    for i in range(KEYS):
        key, value = b"key-%d" % i, b"value-%d" % i
        rocksdb.checked("put", db, write, key, size(len(key)), value, size(len(value)))
        if i == KEYS // 2:
            rocksdb.checked("flush", db, rocksdb.flushoptions_create())
    for i in range(2 * KEYS):
        key, found_size = b"key-%d" % i, ctypes.c_size_t()
        found = rocksdb.checked("get", db, read, key, size(len(key)), ctypes.byref(found_size))
        value = ctypes.string_at(found, found_size.value) if found else None
        if value != (b"value-%d" % i if i < KEYS else None):
            sys.exit(f"{key}: {value}")
        rocksdb.free(found)
    rocksdb.close(db)
    print(f"{KEYS} keys read back")


main()
