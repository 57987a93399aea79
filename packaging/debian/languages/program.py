"""Stores and finds a key in a database with sub-MemTables, by the C interface of the library that the loader finds."""

import ctypes
import sys

lib = ctypes.CDLL("librocksdb.so")
for name in ("options_create", "open", "writeoptions_create", "readoptions_create", "get"):
    getattr(lib, "rocksdb_" + name).restype = ctypes.c_void_p
error = ctypes.c_char_p()
size = ctypes.c_size_t()


def call(name, *arguments):
    result = getattr(lib, "rocksdb_" + name)(*arguments)
    if error.value is not None:
        sys.exit(error.value.decode())
    return result


base, options = (ctypes.c_void_p(call("options_create")) for _ in range(2))
call("options_set_create_if_missing", base, ctypes.c_ubyte(1))
call("get_options_from_string", base, b"memtable_factory=cairn.SubMemTable", options, ctypes.byref(error))
db = ctypes.c_void_p(call("open", options, b"/tmp/python", ctypes.byref(error)))
put, get = (ctypes.c_void_p(call(name + "options_create")) for name in ("write", "read"))
three, five = ctypes.c_size_t(3), ctypes.c_size_t(5)
call("put", db, put, b"key", three, b"value", five, ctypes.byref(error))
value = call("get", db, get, b"key", three, ctypes.byref(size), ctypes.byref(error))
print(ctypes.string_at(value, size.value).decode())
call("close", db)
