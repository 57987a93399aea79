#include "memtable_cache/pm_simulator.h"

#include <algorithm>

namespace cairn {

namespace {

constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kLinesPerBlock = 4;
constexpr unsigned kWholeBlock = 15;

uint64_t FirstLine(uint64_t address) { return address / kLineBytes; }
uint64_t EndLine(uint64_t address, size_t length) { return (address + length + kLineBytes - 1) / kLineBytes; }

// Sets of a real cache follow from a hash of the address.
uint64_t SetHash(uint64_t number) {
  number *= 0x9e3779b97f4a7c15u;
  return number >> 20;
}

}  // namespace

PmSimulator::PmSimulator(const PmSimulatorOptions& options)
    : sets_(std::max<uint64_t>(1, options.cache_bytes / kLineBytes / options.ways)),
      ways_(options.ways),
      buffer_blocks_(options.buffer_blocks),
      lines_(sets_ * ways_) {}

PmSimulator::Line* PmSimulator::Find(uint64_t number) {
  Line* const set = &lines_[SetHash(number) % sets_ * ways_];
  for (size_t way = 0; way < ways_; ++way) {
    if (set[way].valid && set[way].number == number) return &set[way];
  }
  return nullptr;
}

PmSimulator::Line* PmSimulator::Allocate(uint64_t number) {
  Line* const set = &lines_[SetHash(number) % sets_ * ways_];
  Line* victim = &set[0];
  for (size_t way = 0; way < ways_ && victim->valid; ++way) {
    if (!set[way].valid || set[way].used < victim->used) victim = &set[way];
  }
  if (victim->valid && victim->dirty) ToDevice(victim->number);
  *victim = Line();
  victim->valid = true;
  victim->number = number;
  return victim;
}

void PmSimulator::Touch(uint64_t address, size_t length, bool store) {
  if (address >= locked_begin_ && address < locked_end_) return;
  for (uint64_t number = FirstLine(address); number < EndLine(address, length); ++number) {
    Line* line = Find(number);
    if (line == nullptr) line = Allocate(number);
    line->used = ++clock_;
    line->dirty |= store;
  }
}

void PmSimulator::Flush(uint64_t address, size_t length) {
  for (uint64_t number = FirstLine(address); number < EndLine(address, length); ++number) {
    Line* const line = Find(number);
    if (line == nullptr || !line->dirty) continue;
    line->dirty = false;
    ToDevice(number);
  }
}

void PmSimulator::StoreNonTemporal(uint64_t address, size_t length) {
  for (uint64_t number = FirstLine(address); number < EndLine(address, length); ++number) {
    Line* const line = Find(number);
    if (line != nullptr) line->valid = false;
    ToDevice(number);
  }
}

void PmSimulator::ToDevice(uint64_t number) {
  if (number >= kMemory / kLineBytes) return;
  ++counts_.lines;
  const uint64_t block = number / kLinesPerBlock;
  const unsigned bit = 1U << number % kLinesPerBlock;
  if (block != run_block_ || (run_lines_ & bit) != 0) EndRun();
  run_block_ = block;
  run_lines_ |= bit;
  ++run_count_;

  auto at = buffer_.find(block);
  if (at == buffer_.end()) {
    if (buffer_.size() >= buffer_blocks_) WriteBlock(order_.back());
    order_.push_front(block);
    at = buffer_.emplace(block, Block{0, order_.begin()}).first;
  } else {
    order_.splice(order_.begin(), order_, at->second.place);
  }
  at->second.present |= bit;
}

void PmSimulator::EndRun() {
  if (run_lines_ != kWholeBlock) counts_.outside_runs += run_count_;
  run_lines_ = 0;
  run_count_ = 0;
}

void PmSimulator::WriteBlock(uint64_t block) {
  const auto at = buffer_.find(block);
  ++counts_.blocks_written;
  if (at->second.present != kWholeBlock) ++counts_.blocks_read;
  order_.erase(at->second.place);
  buffer_.erase(at);
}

void PmSimulator::Finish() {
  std::vector<Line*> dirty;
  for (Line& line : lines_) {
    if (line.valid && line.dirty) dirty.push_back(&line);
  }
  std::sort(dirty.begin(), dirty.end(), [](const Line* a, const Line* b) { return a->used < b->used; });
  for (Line* line : dirty) {
    line->dirty = false;
    ToDevice(line->number);
  }
  EndRun();
  while (!order_.empty()) WriteBlock(order_.back());
}

}  // namespace cairn
