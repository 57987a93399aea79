#include "tools/status/service.h"

#include <chrono>
#include <utility>

#include "tools/status/http_server.h"
#include "tools/status/snapshot.h"
#include "tools/status/status_json.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using Clock = std::chrono::steady_clock;

// A snapshot that is younger answers all who ask.
constexpr std::chrono::milliseconds kFresh(500);

// What the server's thread knows. Only that thread uses it.
class Pages {
 public:
  Pages(std::unique_ptr<StatusReader> reader, double seconds_between_samples)
      : reader_(std::move(reader)), history_(seconds_between_samples) {
    page_ = [] { return HttpAnswer{200, "text/html; charset=utf-8", kStatusPage}; };
    json_ = [this] { return Answer("application/json", [this] { return StatusToJson(snapshot_, history_); }); };
    metrics_ = [this] {
      return Answer("text/plain; version=0.0.4; charset=utf-8", [this] { return StatusToMetrics(snapshot_); });
    };
  }

  const HttpPage* Find(const std::string& target) const {
    if (target == "/") return &page_;
    if (target == "/status.json") return &json_;
    if (target == "/metrics") return &metrics_;
    return nullptr;
  }

  void Tick() { Refresh(); }

 private:
  void Refresh() {
    if (status_.ok() && read_ && Clock::now() - read_at_ < kFresh) return;
    status_ = reader_->Read(&snapshot_);
    read_ = true;
    read_at_ = Clock::now();
    if (!status_.ok()) return;
    for (const StatusSample& sample : reader_->TakePast()) history_.Add(sample);
    history_.Add(SampleOf(snapshot_));
  }

  template <class Text>
  HttpAnswer Answer(const char* type, const Text& text) {
    Refresh();
    if (!status_.ok()) return {503, "text/plain; charset=utf-8", status_.ToString() + "\n"};
    return {200, type, text()};
  }

  const std::unique_ptr<StatusReader> reader_;
  History history_;
  HttpPage page_, json_, metrics_;
  StatusSnapshot snapshot_;
  Status status_;
  bool read_ = false;
  Clock::time_point read_at_;
};

class Server final : public StatusServer {
 public:
  Server(std::unique_ptr<StatusReader> reader, const StatusOptions& options)
      : pages_(std::move(reader), options.seconds_between_samples) {}

  Status Start(const StatusOptions& options) {
    return HttpServer::Start(
        options.listen, options.port, [this](const std::string& target) { return pages_.Find(target); },
        [this] { pages_.Tick(); }, static_cast<int>(options.seconds_between_samples * 1000), &http_);
  }

  int port() const override { return http_->port(); }
  std::string url() const override { return http_->url(); }

 private:
  Pages pages_;
  std::unique_ptr<HttpServer> http_;  // last: its thread uses the pages
};

StatusSnapshot Look(rocksdb::DB* db) {
  StatusSnapshot snapshot;
  NewDatabaseReader(db)->Read(&snapshot).PermitUncheckedError();  // it reads memory only
  return snapshot;
}

}  // namespace

Status ServeReader(std::unique_ptr<StatusReader> reader, const StatusOptions& options,
                   std::unique_ptr<StatusServer>* server) {
  // Written so that NaN fails, too.
  if (!(options.seconds_between_samples >= 0.1 && options.seconds_between_samples <= 3600)) {
    return Status::InvalidArgument("seconds_between_samples", "must be from 0.1 to 3600");
  }
  auto result = std::make_unique<Server>(std::move(reader), options);
  const Status s = result->Start(options);
  if (s.ok()) *server = std::move(result);
  return s;
}

Status ServeStatus(rocksdb::DB* db, const StatusOptions& options, std::unique_ptr<StatusServer>* server) {
  return ServeReader(NewDatabaseReader(db), options, server);
}

Status ServeStatus(rocksdb::DB* db, int port, std::unique_ptr<StatusServer>* server) {
  StatusOptions options;
  options.port = port;
  return ServeStatus(db, options, server);
}

std::string MetricsText(rocksdb::DB* db) { return StatusToMetrics(Look(db)); }

std::string StatusJson(rocksdb::DB* db) {
  const StatusSnapshot snapshot = Look(db);
  History history(1);
  history.Add(SampleOf(snapshot));
  return StatusToJson(snapshot, history);
}

}  // namespace cairn
