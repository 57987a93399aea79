#include "table/table_formats.h"

#include <map>
#include <string>

#include "file/random_access_file_reader.h"
#include "rocksdb/port/foreign_footer.h"
#include "table/format.h"
#include "table/table_builder.h"

namespace cairn {

namespace {

struct Format {
  std::string factory;
  OpenTableFunction open;
};

std::map<uint64_t, Format>& Formats() {
  static auto* formats = new std::map<uint64_t, Format>();
  return *formats;
}

}  // namespace

TableFormatRegistration::TableFormatRegistration(uint64_t footer_magic, const char* factory, OpenTableFunction open) {
  Formats()[footer_magic] = {factory, open};
  port::RegisterForeignFooter(footer_magic);
}

rocksdb::Status FindTableFormat(const rocksdb::TableFactory& factory, const rocksdb::ReadOptions& read_options,
                                const rocksdb::TableReaderOptions& options, rocksdb::RandomAccessFileReader* file,
                                uint64_t file_size, OpenTableFunction* open) {
  *open = nullptr;
  for (const auto& [magic, format] : Formats()) {
    if (factory.IsInstanceOf(format.factory)) return rocksdb::Status::OK();
  }
  rocksdb::IOOptions io_options;
  rocksdb::Status s = file->PrepareIOOptions(read_options, io_options);
  if (!s.ok()) return s;
  rocksdb::Footer footer;
  s = rocksdb::ReadFooterFromFile(io_options, file, *options.ioptions.fs, nullptr, file_size, &footer, 0,
                                  options.ioptions.stats);
  if (!s.ok()) return s;
  const auto found = Formats().find(footer.table_magic_number());
  if (found != Formats().end()) *open = found->second.open;
  return s;
}

}  // namespace cairn
