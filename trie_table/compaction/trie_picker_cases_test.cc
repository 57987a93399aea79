// What the picker chooses from given shapes: testdata/picker.txt, whose head explains its commands.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "test/testutil/data_file.h"
#include "test/testutil/trie_fixture.h"
#include "trie_table/compaction/hash_picker.h"
#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_space.h"

namespace cairn {
namespace {

constexpr uint64_t kFileBytes = 100;
constexpr uint64_t kFirstOutput = 1000;  // files that `run` makes

// One case: a shape, its picker, and the job that was picked last.
class PickerCase {
 public:
  explicit PickerCase(std::istringstream* words) {
    uint64_t slack = 0;
    uint64_t write_buffer = 0;
    trie_ = ShapedTrie<HashTrieOptions>(/*fan_out=*/4, /*slots=*/6, /*trigger=*/4, /*depth=*/3, /*root_trigger=*/4);
    trie_.seed = 0;
    auto last = LastOfAll::kUsed;
    for (std::string word; *words >> word;) {
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
      if (name == "ingest_behind") {
        last = LastOfAll::kReserved;
      } else if (name == "space_bound") {
        trie_.space_bound = std::stod(value);
      } else if (name == "slack") {
        slack = std::stoull(value);
      } else if (name == "write_buffer") {
        write_buffer = std::stoull(value);
      } else {
        const std::map<std::string, int*> numbers = {{"fan_out", &trie_.fan_out},
                                                     {"slots", &trie_.slots},
                                                     {"trigger", &trie_.trigger},
                                                     {"depth", &trie_.depth},
                                                     {"root_trigger", &trie_.root_trigger}};
        const auto found = numbers.find(name);
        if (found == numbers.end()) {
          ADD_FAILURE() << "trie has no " << name;
        } else {
          *found->second = std::stoi(value);
        }
      }
    }
    shape_ = std::make_unique<HashShape>(trie_, last);
    picker_ = std::make_unique<HashPicker>(shape_.get(), slack, write_buffer);
  }

  std::string Run(const std::string& command, std::istringstream* words) {
    if (command == "root") return AddFiles({0, 0}, words);
    if (command == "files") return AddFiles(ReadId(words), words);
    if (command == "spanning") return AddSpanning(words);
    if (command == "remove") return Remove(words);
    if (command == "pick") return Pick(words);
    if (command == "start") return Start();
    if (command == "run") return Finish();
    if (command == "freed") return Freed(words);
    if (command == "kept") return Kept(words);
    if (command == "snapshot") return Snapshot(words);
    if (command == "slot") return FreeSlot(words);
    if (command == "show") return Show();
    if (command == "space") return Space();
    ADD_FAILURE() << "no such command: " << command;
    return "";
  }

 private:
  static std::string Text(const ContainerId& id) {
    return id.depth == 0 ? "root" : std::to_string(id.depth) + "/" + std::to_string(id.container);
  }
  static ContainerId ReadId(std::istringstream* words) {
    std::string word;
    *words >> word;
    if (word == "root") return {0, 0};
    return {std::stoi(word), std::stoull(word.substr(word.find('/') + 1))};
  }
  // Slot 0 is the oldest.
  int LevelOf(int depth, int slot) const { return depth == 0 ? 0 : LastLevelOfDepth(trie_, depth) - slot; }
  std::string TextOfLevel(int level) const {
    const int depth = DepthOfLevel(trie_, level);
    if (depth == 0) return "root";
    return "depth " + std::to_string(depth) + " slot " + std::to_string(LastLevelOfDepth(trie_, depth) - level);
  }

  static TrieFile FileAt(uint64_t number, int level, uint64_t container) {
    TrieFile file;
    file.number = number;
    file.level = level;
    file.container = container;
    file.bytes = kFileBytes;
    file.data_bytes = kFileBytes;
    return file;
  }

  // Those of the keys `range`, "first-last", whose hash leads to the container.
  std::shared_ptr<KeySketch> SketchOf(const ContainerId& id, const std::string& range) const {
    std::vector<uint64_t> positions;
    for (uint64_t key = std::stoull(range); key <= std::stoull(range.substr(range.find('-') + 1)); ++key) {
      const uint64_t position = shape_->map().Position(std::to_string(key));
      if (shape_->map().ContainerAt(position, id.depth) == id.container) positions.push_back(position);
    }
    std::sort(positions.begin(), positions.end());
    auto sketch = std::make_shared<KeySketch>();
    for (uint64_t position : positions) sketch->Add(position, KeySketch::Entry::kValue);
    sketch->Sort();
    return sketch;
  }

  std::string AddFiles(const ContainerId& id, std::istringstream* words) {
    int slot = 0;
    if (id.depth > 0) *words >> slot;
    std::vector<TrieFile> files;
    for (std::string word; *words >> word;) {
      if (word.compare(0, 5, "keys=") == 0) {
        for (TrieFile& file : files) {
          file.sketch = SketchOf(id, word.substr(5));
          file.bytes = file.data_bytes = kFileBytes * file.sketch->keys();
        }
      } else {
        files.push_back(FileAt(std::stoull(word), LevelOf(id.depth, slot++), id.container));
      }
    }
    for (const TrieFile& file : files) shape_->Add(file);
    return "";
  }

  std::string AddSpanning(std::istringstream* words) {
    const ContainerId first = ReadId(words);
    uint64_t last = 0;
    int slot = 0;
    std::string to;
    uint64_t number = 0;
    *words >> to >> last >> slot >> number;
    TrieFile file = FileAt(number, LevelOf(first.depth, slot), first.container);
    file.spans = true;
    file.last_container = last;
    shape_->Add(file);
    return "";
  }

  std::string Remove(std::istringstream* words) {
    for (uint64_t number = 0; *words >> number;) shape_->Remove(number);
    return "";
  }

  std::string Pick(std::istringstream* words) {
    std::string which;
    TrieJob job;
    bool found = false;
    if (*words >> which) {
      std::istringstream id(which);
      found = picker_->PickContainer(ReadId(&id), &job);
    } else {
      found = picker_->Pick(&job);
    }
    if (!found) return "nothing\n";
    job_ = job;
    static const char* const kKinds[] = {"compact", "push", "merge", "split"};
    std::string text = kKinds[static_cast<int>(job.kind)];
    if (job.kind != TrieJob::Kind::kSplit) text += " " + Text(job.id);
    text += ": files";
    for (uint64_t number : job.inputs) text += " " + std::to_string(number);
    return text + " to " + TextOfLevel(job.output_level) + (job.for_space ? ", for space" : "") + "\n";
  }

  void SetBusy(bool busy) {
    if (job_.kind == TrieJob::Kind::kSplit) {
      shape_->SetSpanningFileBusy(job_.inputs[0], busy);
    } else {
      shape_->SetBusy(job_.id, busy);
    }
  }

  std::string Start() {
    SetBusy(true);
    picker_->Started(job_);
    return "";
  }

  // Each container of the output gets a file.
  std::string Finish() {
    uint64_t first = 0;
    uint64_t last = 0;
    const auto spanning = shape_->spanning_files().find(job_.inputs[0]);
    if (job_.kind == TrieJob::Kind::kSplit) {
      first = spanning->second.first.container;
      last = spanning->second.first.last_container;
    } else if (job_.kind == TrieJob::Kind::kMerge) {
      first = last = job_.id.container;
    } else {
      first = shape_->map().FirstChild(job_.id.container);
      last = first + static_cast<uint64_t>(trie_.fan_out) - 1;
    }
    Start();
    for (uint64_t number : job_.inputs) shape_->Remove(number);
    std::string text = "wrote";
    for (uint64_t container = first; container <= last; ++container) {
      text += " " + std::to_string(next_output_);
      shape_->Add(FileAt(next_output_++, job_.output_level, container));
    }
    if (job_.kind != TrieJob::Kind::kSplit) shape_->SetBusy(job_.id, false);
    picker_->Finished(job_, true, kFileBytes * (last - first + 1), 0);
    return text + "\n";
  }

  // The job has been done, and has freed nothing or so much.
  std::string Freed(std::istringstream* words) {
    uint64_t freed = 0;
    uint64_t snapshot = 0;
    *words >> freed >> snapshot;
    picker_->Started(job_);
    picker_->Finished(job_, true, job_.input_bytes - freed, snapshot);
    return "";
  }

  // The merge is done, and a snapshot sees all that it has read.
  std::string Kept(std::istringstream* words) {
    uint64_t snapshot = 0, number = 0;
    *words >> snapshot >> number;
    const Container& container = *shape_->Find(job_.id);
    TrieFile file = FileAt(number, job_.output_level, job_.id.container);
    file.sketch = container.slots.begin()->second.front().sketch;
    file.bytes = file.data_bytes = container.bytes;
    Start();
    for (uint64_t input : job_.inputs) shape_->Remove(input);
    shape_->Add(file);
    SetBusy(false);
    picker_->Finished(job_, true, file.bytes, snapshot);
    return "";
  }

  std::string Snapshot(std::istringstream* words) {
    uint64_t oldest = 0;
    *words >> oldest;
    picker_->SetOldestSnapshot(oldest);
    return "";
  }

  std::string FreeSlot(std::istringstream* words) {
    const ContainerId id = ReadId(words);
    const int level = shape_->NextFreeLevel(id);
    return Text(id) + " writes to " + (level == 0 ? std::string("none") : TextOfLevel(level)) + "\n";
  }

  std::string Show() const {
    std::string text;
    for (const auto& [id, container] : shape_->containers()) {
      if (container.files == 0) continue;
      text += Text(id) + ":";
      for (auto slot = container.slots.rbegin(); slot != container.slots.rend(); ++slot) {
        if (id.depth > 0) text += " " + std::to_string(LastLevelOfDepth(trie_, id.depth) - slot->first) + ":";
        for (const TrieFile& file : slot->second) text += " " + std::to_string(file.number);
      }
      text += "\n";
    }
    return text.empty() ? "empty\n" : text;
  }

  std::string Space() {
    const TrieSpace& space = picker_->Space();
    char text[100];
    snprintf(text, sizeof(text), "%llu bytes, %llu live, pressure %.2f\n", static_cast<unsigned long long>(space.bytes),
             static_cast<unsigned long long>(space.live), picker_->SpacePressure());
    return text;
  }

  HashTrieOptions trie_;
  std::unique_ptr<HashShape> shape_;
  std::unique_ptr<HashPicker> picker_;
  TrieJob job_;
  uint64_t next_output_ = kFirstOutput;
};

TEST(TriePickerCasesTest, ChoicesAreThoseOfTheFile) {
  std::unique_ptr<PickerCase> now;
  RunDataFile("trie_table/compaction/testdata/picker.txt", [&](const std::string& line) -> std::string {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "trie") {
      now = std::make_unique<PickerCase>(&words);
      return "";
    }
    if (now == nullptr) {
      ADD_FAILURE() << "the file begins without a trie";
      return "";
    }
    return now->Run(command, &words);
  });
}

}  // namespace
}  // namespace cairn
