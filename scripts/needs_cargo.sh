# Sourced by scripts that take a RocksDB by release, folder or archive.
#
#   needs_cargo ROCKSDB    whether cargo is missing and scripts/fetch_rocksdb cannot have this one without
needs_cargo() {
  case $1 in 11.8 | 11.8.1) ;; *) return 1 ;; esac
  ! command -v cargo >/dev/null &&
    ! scripts/fetch_rocksdb "${CAIRN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/cairn}" "$1" >/dev/null 2>&1
}
