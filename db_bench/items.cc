#include "db_bench/items.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "db_bench/keys.h"
#include "db_bench/report.h"
#include "util/rocksdb_names.h"

namespace cairn::bench {

namespace {

// All texts one after the other in one string.
class StoredItems : public ItemSource {
 public:
  explicit StoredItems(const std::string& what) : what_(what) {}

  void Add(std::string_view key, std::string_view value) {
    items_.push_back({bytes_.size(), static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())});
    bytes_.append(key);
    bytes_.append(value);
  }

  // The last of equal keys stays. Call once, after the last Add.
  void DropEqualKeys() {
    std::unordered_map<std::string_view, uint64_t> last;
    last.reserve(items_.size());
    for (uint64_t i = 0; i < items_.size(); i++) {
      last[KeyOf(items_[i])] = i;
    }
    std::vector<Item> kept;
    kept.reserve(last.size());
    for (uint64_t i = 0; i < items_.size(); i++) {
      if (last[KeyOf(items_[i])] == i) {
        kept.push_back(items_[i]);
      }
    }
    dropped_ = items_.size() - kept.size();
    items_ = std::move(kept);
  }

  uint64_t count() const override { return items_.size(); }

  void Key(uint64_t item, std::string* key) const override { key->assign(KeyOf(items_[item])); }

  void Value(uint64_t item, uint32_t version, std::string* value) const override {
    const Item& from = items_[version == 0 ? item : SplitMix64(item + (uint64_t{version} << 40)) % items_.size()];
    value->assign(bytes_, from.offset + from.key_size, from.value_size);
  }

  std::string Description() const override {
    std::string text = what_ + ": " + std::to_string(items_.size()) + " items, " +
                       HumanBytes(static_cast<double>(bytes_.size())) + " of keys and values";
    if (dropped_ > 0) {
      text += "; " + std::to_string(dropped_) + " items with the key of a later one left out";
    }
    return text;
  }

 private:
  struct Item {
    uint64_t offset;
    uint32_t key_size;
    uint32_t value_size;
  };
  std::string_view KeyOf(const Item& item) const { return std::string_view(&bytes_[item.offset], item.key_size); }

  const std::string what_;
  std::string bytes_;
  std::vector<Item> items_;
  uint64_t dropped_ = 0;
};

// Sizes of the 1,093,145 field texts of Debian 12's main package index at every 1/64 of their distribution, bytes; the
// few above 165 (2 of 100) are cut there.
constexpr uint8_t kValueSizes[] = {1,  2,  3,  3,  3,  3,  4,  4,  4,  5,  5,  5,  5,  5,  6,  6,
                                   7,  7,  7,  8,  8,  8,  8,  8,  10, 11, 13, 14, 16, 17, 19, 21,
                                   23, 26, 29, 31, 32, 32, 32, 32, 32, 32, 32, 32, 35, 37, 40, 43,
                                   46, 49, 52, 54, 58, 61, 64, 64, 64, 64, 65, 70, 72, 79, 99, 165};

// The fields that most packages have.
constexpr const char* kFields[] = {"Package",    "Version",  "Architecture", "Maintainer", "Installed-Size",
                                   "Depends",    "Homepage", "Description",  "Section",    "Priority",
                                   "Filename",   "Size",     "MD5sum",       "SHA256",     "Description-md5",
                                   "Multi-Arch", "Tag"};
constexpr uint64_t kFieldCount = sizeof(kFields) / sizeof(kFields[0]);

class MadeUpItems : public ItemSource {
 public:
  explicit MadeUpItems(uint64_t count) : count_(count), texts_(1) {}

  uint64_t count() const override { return count_; }

  // "lib<16 digits>/<version>/<field>": the digits are a bijection of the package's number. 38 bytes in the mean, as in
  // the package index.
  void Key(uint64_t item, std::string* key) const override {
    uint64_t hash = SplitMix64(item / kFieldCount);
    char package[64];
    int size =
        snprintf(package, sizeof(package), "lib%016llx/%u.%u-%u/", static_cast<unsigned long long>(hash),
                 static_cast<unsigned>(hash % 10), static_cast<unsigned>(hash % 97), static_cast<unsigned>(hash % 7));
    key->assign(package, size);
    key->append(kFields[item % kFieldCount]);
  }

  void Value(uint64_t item, uint32_t version, std::string* value) const override {
    uint64_t from = item + (uint64_t{version} << 40);
    size_t size = kValueSizes[SplitMix64(from) % sizeof(kValueSizes)];
    rocksdb::Slice text = texts_.Value(from, size);
    value->assign(text.data(), text.size());
  }

  std::string Description() const override {
    return "made-up items, sizes as in the package index: " + std::to_string(count_) + " items";
  }

 private:
  const uint64_t count_;
  const ValueSource texts_;
};

// The fields of one package as they are read.
class PackageFields {
 public:
  void AddField(const std::string& line, size_t colon) {
    size_t start = line.find_first_not_of(' ', colon + 1);
    fields_.emplace_back(line.substr(0, colon), start == std::string::npos ? "" : line.substr(start));
  }
  // False when there is no field to continue.
  bool Continue(const std::string& line) {
    if (fields_.empty()) {
      return false;
    }
    fields_.back().second += "\n" + line;
    return true;
  }
  void MoveTo(StoredItems* items) {
    std::string prefix = Find("Package") + "/" + Find("Version") + "/";
    for (const auto& field : fields_) {
      items->Add(prefix + field.first, field.second);
    }
    fields_.clear();
  }

 private:
  std::string Find(const char* name) const {
    for (const auto& field : fields_) {
      if (field.first == name) {
        return field.second;
      }
    }
    return "";
  }
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace

Status ReadPackageIndex(std::istream* text, std::unique_ptr<ItemSource>* items) {
  auto stored = std::make_unique<StoredItems>("fields of this machine's package index");
  PackageFields package;
  uint64_t number = 0;
  for (std::string line; std::getline(*text, line);) {
    number++;
    size_t colon = line.find(':');
    bool good = true;
    if (line.empty()) {
      package.MoveTo(stored.get());
    } else if (line[0] == ' ' || line[0] == '\t') {
      good = package.Continue(line);
    } else if (colon != std::string::npos && colon > 0) {
      package.AddField(line, colon);
    } else {
      good = false;
    }
    if (!good) {
      return Status::Corruption("the package index has a line that is no field, line " + std::to_string(number), line);
    }
  }
  package.MoveTo(stored.get());
  stored->DropEqualKeys();
  if (stored->count() == 0) {
    return Status::NotFound("the package index is empty");
  }
  *items = std::move(stored);
  return Status::OK();
}

Status ReadPackageIndexOfThisMachine(std::unique_ptr<ItemSource>* items) {
  const std::string remedy =
      "run `apt-get update` as root and try again, or name your own data with --file, "
      "or make some up with --items";
  FILE* pipe = popen("LC_ALL=C apt-cache dumpavail 2>/dev/null", "r");
  if (pipe == nullptr) {
    return Status::IOError("cannot run apt-cache", strerror(errno));
  }
  std::string text;
  std::vector<char> buffer(1 << 20);
  for (size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), got);
  }
  int code = pclose(pipe);
  if (WIFEXITED(code) && WEXITSTATUS(code) == 127) {
    return Status::NotFound(
        "this machine has no apt-cache; name your own data with --file, or make some up with --items");
  }
  if (code != 0 || text.empty()) {
    return Status::NotFound("apt-cache dumpavail gave no package lists; " + remedy);
  }
  std::istringstream stream(text);
  return ReadPackageIndex(&stream, items);
}

Status ReadTsv(std::istream* text, const std::string& name, std::unique_ptr<ItemSource>* items) {
  auto stored = std::make_unique<StoredItems>(name);
  uint64_t number = 0;
  for (std::string line; std::getline(*text, line);) {
    number++;
    size_t tab = line.find('\t');
    if (tab == std::string::npos) {
      return Status::Corruption(name + ", line " + std::to_string(number) + " has no tab between key and value");
    }
    if (line.size() > std::numeric_limits<uint32_t>::max()) {
      return Status::InvalidArgument(name + ", line " + std::to_string(number) + " is longer than 4 GB");
    }
    stored->Add(std::string_view(line).substr(0, tab), std::string_view(line).substr(tab + 1));
  }
  stored->DropEqualKeys();
  if (stored->count() == 0) {
    return Status::NotFound(name + " holds no items");
  }
  *items = std::move(stored);
  return Status::OK();
}

std::unique_ptr<ItemSource> MakeUpItems(uint64_t count) { return std::make_unique<MadeUpItems>(count); }

}  // namespace cairn::bench
