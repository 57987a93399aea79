// Stores and finds a key in a database with sub-MemTables, by the C interface.
package main

// #cgo LDFLAGS: -lrocksdb
// #include <rocksdb/c.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
)

func main() {
	var failed *C.char
	check := func() {
		if failed != nil {
			fmt.Fprintln(os.Stderr, C.GoString(failed))
			os.Exit(1)
		}
	}
	base, options := C.rocksdb_options_create(), C.rocksdb_options_create()
	C.rocksdb_options_set_create_if_missing(base, 1)
	C.rocksdb_get_options_from_string(base, C.CString("memtable_factory=cairn.SubMemTable"), options, &failed)
	check()
	db := C.rocksdb_open(options, C.CString("/tmp/go"), &failed)
	check()
	C.rocksdb_put(db, C.rocksdb_writeoptions_create(), C.CString("key"), 3, C.CString("value"), 5, &failed)
	check()
	var size C.size_t
	value := C.rocksdb_get(db, C.rocksdb_readoptions_create(), C.CString("key"), 3, &size, &failed)
	check()
	fmt.Println(C.GoStringN(value, C.int(size)))
	C.rocksdb_close(db)
}
