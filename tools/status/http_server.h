// A web server for a handful of fixed pages, in one thread. It answers GET and HEAD and nothing else, reads no body,
// takes no parameters, and closes each connection after its answer.
//
// Bounds: kMaxConnections at a time (when one more comes, the one that has waited longest is closed), kMaxRequest bytes
// of a request, kTimeout for a whole exchange. A server on a loopback address answers only requests whose Host is a
// loopback name, so that no page of another site can read it through a name that leads here (DNS rebinding).
//
// Thread-safety: the functions may be called by any thread; what it is given to call is called by its own thread only.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "rocksdb/status.h"

namespace cairn {

struct HttpAnswer {
  int code = 200;  // 200 or 503
  std::string type;
  std::string body;
};

// The target of a request ("/metrics") to its answer; null: there is no such page.
using HttpPage = std::function<HttpAnswer()>;
using HttpPages = std::function<const HttpPage*(const std::string& target)>;

class HttpServer {
 public:
  static constexpr size_t kMaxConnections = 16;
  static constexpr size_t kMaxRequest = 8 << 10;
  static constexpr int kTimeoutMillis = 5000;

  // Listens at `address` ("127.0.0.1", "::1", "localhost", "0.0.0.0", no other names); port 0: one that is free. `tick`
  // is called before the first request is answered and about every `tick_millis` from then on. InvalidArgument: no such
  // address; Busy: the port is taken.
  static rocksdb::Status Start(const std::string& address, int port, HttpPages pages, std::function<void()> tick,
                               int tick_millis, std::unique_ptr<HttpServer>* server);
  // Closes all connections and returns when no call of `pages` or `tick` runs.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  // "http://127.0.0.1:8910/"
  std::string url() const;

 private:
  class Loop;
  HttpServer() = default;

  std::string address_;
  int port_ = 0;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace cairn
