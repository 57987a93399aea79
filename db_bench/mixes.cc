#include "db_bench/mixes.h"

#include <algorithm>
#include <cmath>

namespace cairn::bench {

namespace {

constexpr double kYcsbTheta = 0.99;
constexpr uint32_t kRemoved = uint32_t{1} << 31;
constexpr size_t kDigits = 16;
constexpr uint64_t kSeriesStreams = 1000;

// Uniform in (0, 1), by a number alone.
double Unit(uint64_t hash) { return (static_cast<double>(hash >> 11) + 0.5) * 0x1.0p-53; }

uint64_t Between(uint64_t hash, uint64_t least, uint64_t most) { return least + hash % (most - least + 1); }

// As load generators quote SIGMETRICS 2012 (see mixes.h): key sizes of ETC.
size_t EtcKeyBytes(uint64_t hash) {
  constexpr double kMu = 30.7984;
  constexpr double kSigma = 8.20449;
  constexpr double kShape = 0.078688;
  const double size = kMu + kSigma / kShape * (std::pow(-std::log(Unit(hash)), -kShape) - 1);
  return static_cast<size_t>(std::clamp(size, double{kDigits}, 250.0));  // memcached's longest key
}

// The same: shares of small values and the distribution of larger ones.
size_t EtcValueBytes(uint64_t hash) {
  constexpr double kShares[] = {0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606,
                                0.00023, 0.00837, 0.00837, 0.08989, 0.00092, 0.00326, 0.01980};
  constexpr size_t kListed = sizeof(kShares) / sizeof(kShares[0]);
  constexpr double kSigma = 214.476;
  constexpr double kShape = 0.348238;
  double u = Unit(hash);
  for (size_t size = 0; size < kListed; ++size) {
    if (u < kShares[size]) return size;
    u -= kShares[size];
  }
  const double size = kListed + kSigma / kShape * (std::pow(Unit(SplitMix64(hash)), -kShape) - 1);
  return static_cast<size_t>(std::min(size, static_cast<double>(ValueSource::kMaxValueBytes)));
}

// The inverses of SplitMix64's steps.
uint64_t UnMix64(uint64_t x) {
  x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3u;
  x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089u;
  return x ^ (x >> 30) ^ (x >> 60);
}

}  // namespace

const char* OperationName(OperationKind kind) {
  constexpr const char* kNames[kOperationKinds] = {"get",    "absent_get", "update",           "insert",
                                                   "delete", "scan",       "read_modify_write"};
  return kNames[static_cast<int>(kind)];
}

const std::vector<Mix>& Mixes() {
  // Absent gets are the GETs that missed in the trace.
  static const std::vector<Mix>* const mixes = new std::vector<Mix>{
      //                                             get absent update insert delete scan rmw
      {"ycsb_a", Shape::kRecord, Popularity::kZipf, {50, 0, 50, 0, 0, 0, 0}, 0},
      {"ycsb_b", Shape::kRecord, Popularity::kZipf, {95, 0, 5, 0, 0, 0, 0}, 0},
      {"ycsb_c", Shape::kRecord, Popularity::kZipf, {100, 0, 0, 0, 0, 0, 0}, 0},
      {"ycsb_d", Shape::kRecord, Popularity::kLatest, {95, 0, 0, 5, 0, 0, 0}, 0},
      {"ycsb_e", Shape::kRecord, Popularity::kZipf, {0, 0, 0, 5, 0, 95, 0}, 100},
      {"ycsb_f", Shape::kRecord, Popularity::kZipf, {50, 0, 0, 0, 0, 0, 50}, 0},
      {"etc", Shape::kEtc, Popularity::kZipf, {60.35, 13.79, 2.03, 0, 23.83, 0, 0}, 0},
      {"app", Shape::kApp, Popularity::kZipf, {78.08, 5.97, 4.64, 0, 11.31, 0, 0}, 0},
      {"usr", Shape::kUsr, Popularity::kZipf, {97.93, 1.79, 0.17, 0, 0.11, 0, 0}, 0},
      {"sys", Shape::kSys, Popularity::kZipf, {46.27, 0.61, 53.09, 0, 0.03, 0, 0}, 0},
      {"var", Shape::kVar, Popularity::kZipf, {1.67, 0.11, 98.22, 0, 0, 0, 0}, 0},
      {"queue", Shape::kQueue, Popularity::kStreams, {0, 0, 0, 80, 0, 20, 0}, 10},
      {"series", Shape::kSeries, Popularity::kStreams, {0, 0, 0, 90, 0, 10, 0}, 100},
  };
  return *mixes;
}

const Mix* FindMix(const std::string& name) {
  for (const Mix& mix : Mixes()) {
    if (name == mix.name) return &mix;
  }
  return nullptr;
}

bool NeedsKeyOrder(const Mix& mix) { return mix.shares[static_cast<int>(OperationKind::kScan)] > 0; }

uint64_t StreamsOf(Shape shape) { return shape == Shape::kQueue ? 1 : shape == Shape::kSeries ? kSeriesStreams : 0; }

size_t KeyBytes(Shape shape, uint64_t number) {
  const uint64_t hash = SplitMix64(~number);
  switch (shape) {
    case Shape::kRecord:
      return 23;
    case Shape::kEtc:
      return EtcKeyBytes(hash);
    case Shape::kApp:
    case Shape::kVar:
      return 31;
    case Shape::kUsr:
      return hash % 2 == 0 ? 16 : 21;
    case Shape::kSys:
      return Between(hash, 16, 45);
    case Shape::kQueue:
    case Shape::kSeries:
      break;
  }
  return kDigits;
}

size_t ValueBytes(Shape shape, uint64_t number, uint32_t version, size_t record_bytes) {
  const uint64_t hash = SplitMix64(number + (uint64_t{version} << 40));
  switch (shape) {
    case Shape::kRecord:
      return record_bytes == 0 ? 1000 : record_bytes;
    case Shape::kEtc:
      return EtcValueBytes(hash);
    case Shape::kApp:
      return 270;
    case Shape::kUsr:
      return 2;
    case Shape::kSys:
      return Between(hash, 100, 700);
    case Shape::kVar:
      return Between(hash, 20, 150);
    case Shape::kQueue:
      return 100;
    case Shape::kSeries:
      break;
  }
  return 16;
}

void EncodeItemKey(Shape shape, uint64_t number, std::string* key) {
  key->assign(KeyBytes(shape, number), '.');
  if (StreamsOf(shape) == 0) return EncodeKey(number, key->data());
  constexpr char kHex[] = "0123456789abcdef";
  for (size_t i = kDigits; i-- > 0; number >>= 4) (*key)[i] = kHex[number & 15];
}

uint64_t DecodeItemKey(Shape shape, const rocksdb::Slice& key) {
  uint64_t bits = 0;
  for (size_t i = 0; i < kDigits && i < key.size(); ++i) {
    const char digit = key[i];
    bits = bits << 4 | static_cast<uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return StreamsOf(shape) > 0 ? bits : UnMix64(bits) - kSplitMixStep;
}

ItemModel::ItemModel(Shape shape, uint64_t items) : streams_(StreamsOf(shape)) {
  if (streams_.empty()) versions_.reserve(items + items / 4);
}

uint32_t ItemModel::Version(uint64_t number) const {
  if (!streams_.empty()) {
    const uint64_t index = number >> 32;
    const auto place = static_cast<uint32_t>(number);
    return index < streams_.size() && place >= streams_[index].first && place < streams_[index].next ? 1 : 0;
  }
  return number < versions_.size() && (versions_[number] & kRemoved) == 0 ? versions_[number] : 0;
}

uint32_t ItemModel::Store(uint64_t number) {
  if (!streams_.empty()) {
    ++streams_[number >> 32].next;
    ++present_;
    return 1;
  }
  if (number == versions_.size()) versions_.push_back(0);
  if (Version(number) == 0) ++present_;
  return versions_[number] = (versions_[number] & ~kRemoved) + 1;
}

void ItemModel::Remove(uint64_t number) {
  if (Version(number) == 0) return;
  --present_;
  if (streams_.empty()) {
    versions_[number] |= kRemoved;
  } else {
    ++streams_[number >> 32].first;
  }
}

MixGenerator::MixGenerator(const Mix& mix, ItemModel* model, uint64_t seed)
    : mix_(mix), model_(model), random_(seed), zipf_(std::max<uint64_t>(model->count(), 1), kYcsbTheta, seed + 1) {}

OperationKind MixGenerator::Kind() {
  double u = 100 * random_.NextDouble();
  int last = 0;
  for (int i = 0; i < kOperationKinds; ++i) {
    if (mix_.shares[i] == 0) continue;
    if (u < mix_.shares[i]) return static_cast<OperationKind>(i);
    u -= mix_.shares[i];
    last = i;
  }
  return static_cast<OperationKind>(last);
}

// In [0, count()), but where a key is to be new or absent.
uint64_t MixGenerator::Chosen(OperationKind kind) {
  const uint64_t count = model_->count();
  if (kind == OperationKind::kInsert) return count;
  if (kind == OperationKind::kAbsentGet) return (uint64_t{1} << 40) + random_.Uniform(uint64_t{1} << 40);
  if (kind == OperationKind::kDelete) return random_.Uniform(count);
  // YCSB's "latest": the newest is the most popular one.
  return mix_.popularity == Popularity::kLatest ? count - 1 - zipf_.Next() : zipf_.Next();
}

Operation MixGenerator::InStream(OperationKind kind) {
  if (delete_due_) {
    delete_due_ = false;
    return {OperationKind::kDelete, stream_ << 32 | model_->stream(stream_).first, 0};
  }
  const uint64_t index = random_.Uniform(model_->streams());
  const ItemModel::Stream& stream = model_->stream(index);
  if (kind == OperationKind::kInsert) {
    delete_due_ = true;
    stream_ = index;
    return {kind, index << 32 | stream.next, 0};
  }
  const uint64_t length = std::min<uint64_t>(1 + random_.Uniform(mix_.most_scanned), stream.next - stream.first);
  // A queue is read at its front, of a series the newest.
  const uint64_t from = mix_.shape == Shape::kQueue ? stream.first : stream.next - length;
  return {kind, index << 32 | from, length};
}

Operation MixGenerator::Next() {
  if (mix_.popularity == Popularity::kStreams) return InStream(delete_due_ ? OperationKind::kDelete : Kind());
  const OperationKind kind = Kind();
  const uint64_t number = Chosen(kind);
  return {kind, number, kind == OperationKind::kScan ? 1 + random_.Uniform(mix_.most_scanned) : 0};
}

}  // namespace cairn::bench
