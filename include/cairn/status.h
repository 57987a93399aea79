// Watching a database run: a small web page with the picture of the tree, rates, amplification, memory and the tuner's
// reasons, and the same as numbers for Prometheus and other programs.
//
//   std::unique_ptr<cairn::StatusServer> server;
//   rocksdb::Status s = cairn::ServeStatus(db, 8910, &server);
//   if (s.ok()) puts(server->url().c_str());  // http://127.0.0.1:8910/
//   ...
//   server.reset();  // before the database is closed
//
// The pages are `/`, `/status.json` and `/metrics`. The server reads only; it listens on the loopback address unless
// told otherwise, because whoever reaches it sees names and sizes of column families (no keys, no values). Any database
// of this library will do, also one that uses no part of Cairn. `cairn serve DIR` shows a database from outside, and
// sees less: docs/guide/watch.md.
//
// Thread-safety: safe.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/status.h"

namespace cairn {

struct StatusOptions {
  // The IP address to listen at, or localhost. "0.0.0.0" and "::" are all addresses of the machine; nobody is asked for
  // a password then, and nothing is encrypted.
  std::string listen = "127.0.0.1";

  // 0: one that is free; StatusServer::port says which.
  int port = 0;

  // Seconds between two points of the curves, 0.1 to 3600. There are 240 points at most: after that many every second
  // one is dropped and the distance doubles, so that the curves always reach back to the start of the server.
  double seconds_between_samples = 5;
};

// A running server; its destruction ends it. It has one thread, which does nothing between requests and samples.
class StatusServer {
 public:
  virtual ~StatusServer() = default;
  virtual int port() const = 0;
  // "http://127.0.0.1:8910/"
  virtual std::string url() const = 0;
};

// REQUIRES: *db is open until the server is destroyed. InvalidArgument: a field of the options, or an address that is
// not of this machine; Busy: the port is taken.
rocksdb::Status ServeStatus(rocksdb::DB* db, const StatusOptions& options, std::unique_ptr<StatusServer>* server);
// With the other options as they are.
rocksdb::Status ServeStatus(rocksdb::DB* db, int port, std::unique_ptr<StatusServer>* server);

// What `/metrics` answers, in Prometheus' text format (Content-Type: text/plain; version=0.0.4), for programs that have
// a web server already. Takes milliseconds, on a trie some tens of them.
std::string MetricsText(rocksdb::DB* db);

// What `/status.json` answers, with curves of one point.
std::string StatusJson(rocksdb::DB* db);

}  // namespace cairn
