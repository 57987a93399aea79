// Stores and finds a key in a database with sub-MemTables, by the C interface.
use std::ffi::CStr;
use std::os::raw::{c_char, c_uchar, c_void};
use std::ptr::null_mut;

#[link(name = "rocksdb")]
extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, on: c_uchar);
    fn rocksdb_get_options_from_string(base: *const c_void, text: *const c_char, options: *mut c_void, error: *mut *mut c_char);
    fn rocksdb_open(options: *const c_void, path: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_put(db: *mut c_void, options: *const c_void, key: *const c_char, key_size: usize, value: *const c_char, size: usize, error: *mut *mut c_char);
    fn rocksdb_get(db: *mut c_void, options: *const c_void, key: *const c_char, key_size: usize, size: *mut usize, error: *mut *mut c_char) -> *mut c_char;
    fn rocksdb_close(db: *mut c_void);
}

fn check(error: *mut c_char) {
    if !error.is_null() {
        eprintln!("{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
        std::process::exit(1);
    }
}

fn main() {
    let text = |bytes: &'static [u8]| bytes.as_ptr() as *const c_char;
    unsafe {
        let (mut error, mut size) = (null_mut(), 0);
        let (base, options) = (rocksdb_options_create(), rocksdb_options_create());
        rocksdb_options_set_create_if_missing(base, 1);
        rocksdb_get_options_from_string(base, text(b"memtable_factory=cairn.SubMemTable\0"), options, &mut error);
        check(error);
        let db = rocksdb_open(options, text(b"/tmp/db_rust\0"), &mut error);
        check(error);
        rocksdb_put(db, rocksdb_writeoptions_create(), text(b"key"), 3, text(b"value"), 5, &mut error);
        check(error);
        let value = rocksdb_get(db, rocksdb_readoptions_create(), text(b"key"), 3, &mut size, &mut error);
        check(error);
        println!("{}", String::from_utf8_lossy(std::slice::from_raw_parts(value as *const u8, size)));
        rocksdb_close(db);
    }
}
