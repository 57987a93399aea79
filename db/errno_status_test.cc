// Which errors of system calls pass, and that a database is there again when they have.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "db/error_recovery_fixture.h"
#include "env/io_posix.h"

namespace cairn {
namespace {

using rocksdb::IOStatus;

TEST(ErrnoStatusTest, WhichPass) {
  for (const int number : {EMFILE, ENFILE, ENOMEM, EROFS, EDQUOT, ENOSPC}) {
    const IOStatus s = rocksdb::IOError("While it was tested", "file", number);
    EXPECT_TRUE(s.GetRetryable()) << s.ToString();
    EXPECT_EQ(s.IsNoSpace(), number == EDQUOT || number == ENOSPC) << s.ToString();
    EXPECT_TRUE(s.IsIOError() || s.IsNoSpace()) << s.ToString();
    EXPECT_NE(s.ToString().find("While it was tested: file: "), std::string::npos) << s.ToString();
    EXPECT_NE(s.ToString().find(strerror(number)), std::string::npos) << s.ToString();
  }
  for (const int number : {EIO, EACCES, EBADF, EINVAL}) {
    EXPECT_FALSE(rocksdb::IOError("While it was tested", "file", number).GetRetryable()) << number;
  }
  EXPECT_TRUE(rocksdb::IOError("While it was tested", "file", ENOENT).IsPathNotFound());
}

// All descriptors that the process may have, until they are destroyed.
class AllDescriptors {
 public:
  AllDescriptors() {
    getrlimit(RLIMIT_NOFILE, &limit_);
    rlimit less = limit_;
    less.rlim_cur = 300;
    setrlimit(RLIMIT_NOFILE, &less);
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) taken_.push_back(fd);
  }
  ~AllDescriptors() {
    for (const int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &limit_);
  }
  AllDescriptors(const AllDescriptors&) = delete;
  AllDescriptors& operator=(const AllDescriptors&) = delete;

 private:
  rlimit limit_ = {};
  std::vector<int> taken_;
};

TEST_F(ErrorRecoveryTest, FileDescriptorsRunOut) {
  const auto db = OpenWithKey(options_);
  // Of another error first: UBSan asks by a pipe whether the object of a thread can be read, once for each kind of threads, and
  // takes it for damaged where there is no descriptor.
  disk_->retryable = test::kTable;
  EXPECT_FALSE(db->Flush(rocksdb::FlushOptions()).ok());
  disk_->retryable = 0;
  ASSERT_TRUE(Await([&] { return listener_->recovered == 1; }));
  EXPECT_OK(Put(db.get()));
  const int before = listener_->errors;
  {
    const AllDescriptors taken;
    EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsIOError());
    EXPECT_TRUE(Await([&] { return listener_->errors > before; }));
  }
  EXPECT_TRUE(Await([&] { return Put(db.get()).ok(); }));
  EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
}

// RocksDB's was there afterwards, and nobody had its handle.
TEST_F(ErrorRecoveryTest, AColumnFamilyIsCreatedWithoutADescriptorLeft) {
  const auto db = OpenWithKey(options_);
  rocksdb::ColumnFamilyHandle* created = nullptr;
  {
    const AllDescriptors taken;
    EXPECT_TRUE(db->CreateColumnFamily(options_, "other", &created).IsIOError());
  }
  ASSERT_OK(db->CreateColumnFamily(options_, "other", &created));
  EXPECT_OK(db->DestroyColumnFamilyHandle(created));
}

}  // namespace
}  // namespace cairn
