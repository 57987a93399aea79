#include "tools/status/http_server.h"

#include "util/rocksdb_names.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn {

namespace {

using Clock = std::chrono::steady_clock;

// A file descriptor that is closed with its owner.
class Socket {
 public:
  explicit Socket(int number = -1) : number_(number) {}
  ~Socket() {
    if (number_ >= 0) close(number_);
  }
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

const char* ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

std::string HeaderOf(int code, const std::string& type, size_t size) {
  return "HTTP/1.1 " + std::to_string(code) + " " + ReasonOf(code) + "\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(size) +
         "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
         "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
         "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n" +
         (code == 405 ? "Allow: GET, HEAD\r\n" : "") + "Connection: close\r\n\r\n";
}

std::string ErrorAnswer(int code, const std::string& text) {
  const std::string body = text + "\n";
  return HeaderOf(code, "text/plain; charset=utf-8", body.size()) + body;
}

// "localhost", 127.x.y.z, [::1], each with or without a port.
bool IsLoopbackHost(std::string host) {
  if (host.compare(0, 5, "[::1]") == 0) return host.size() == 5 || host[5] == ':';
  host.resize(std::min(host.size(), host.find(':')));
  if (strcasecmp(host.c_str(), "localhost") == 0) return true;
  in_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

bool IsLoopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

struct Request {
  std::string method;
  std::string target;
  std::string host;
  bool has_host = false;
};

// False: no request as HTTP/1.0 and 1.1 have it. `text` ends with the empty line.
bool ParseRequest(const std::string& text, Request* request) {
  const size_t line_end = text.find("\r\n");
  const std::string line = text.substr(0, line_end);
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string::npos || last <= first + 1 || line.compare(last + 1, 7, "HTTP/1.") != 0) return false;
  request->method = line.substr(0, first);
  request->target = line.substr(first + 1, last - first - 1);
  size_t at = line_end + 2;
  while (at < text.size()) {
    const size_t end = text.find("\r\n", at);
    if (end == std::string::npos || end == at) break;
    const size_t colon = text.find(':', at);
    if (colon == std::string::npos || colon > end) return false;
    if (strcasecmp(text.substr(at, colon - at).c_str(), "Host") == 0) {
      if (request->has_host) return false;
      request->has_host = true;
      const size_t begin = text.find_first_not_of(" \t", colon + 1);
      request->host = begin < end ? text.substr(begin, end - begin) : "";
      while (!request->host.empty() && strchr(" \t", request->host.back()) != nullptr) request->host.pop_back();
    }
    at = end + 2;
  }
  return true;
}

Status Listen(const std::string& address, int port, Socket* listener, sockaddr_storage* bound) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = address == "localhost" ? "127.0.0.1" : address;
  if (port < 0 || port > 65535) {
    return Status::InvalidArgument("port " + std::to_string(port), "a port is 0 (any that is free) to 65535");
  }
  if (host.empty() || getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return Status::InvalidArgument("address \"" + address + "\"", "give an IP address of this machine, or localhost");
  }
  const std::string place = address + " port " + std::to_string(port);
  *listener = Socket(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  int error = listener->number() < 0 ? errno : 0;
  if (error == 0) {
    setsockopt(listener->number(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener->number(), found->ai_addr, found->ai_addrlen) != 0 ||
        listen(listener->number(), SOMAXCONN) != 0) {
      error = errno;
    }
  }
  freeaddrinfo(found);
  socklen_t size = sizeof(*bound);
  if (error == 0 && getsockname(listener->number(), reinterpret_cast<sockaddr*>(bound), &size) != 0) error = errno;
  if (error == EADDRINUSE) return Status::Busy(place, "is taken by another program; choose another port, or 0 for any");
  if (error == EADDRNOTAVAIL) return Status::InvalidArgument(place, "this machine has no such address");
  if (error == EACCES) return Status::InvalidArgument(place, "ports below 1024 take more rights; choose a higher one");
  return error == 0 ? Status::OK() : Status::IOError(place, strerror(error));
}

}  // namespace

// What runs in the server's thread.
class HttpServer::Loop {
 public:
  Loop(Socket listener, bool loopback, HttpPages pages, std::function<void()> tick, int tick_millis)
      : listener_(std::move(listener)),
        loopback_(loopback),
        pages_(std::move(pages)),
        tick_(std::move(tick)),
        tick_time_(tick_millis) {}

  Status Prepare() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Status::IOError("pipe", strerror(errno));
    wake_read_ = Socket(ends[0]);
    wake_write_ = Socket(ends[1]);
    return Status::OK();
  }

  // From another thread.
  void Stop() const {
    const char byte = 0;
    while (write(wake_write_.number(), &byte, 1) < 0 && errno == EINTR) {
    }
  }

  void Run() {
    auto next_tick = Clock::now();
    for (;;) {
      if (Clock::now() >= next_tick) {
        tick_();
        next_tick = Clock::now() + tick_time_;
      }
      DropLate();
      std::vector<pollfd> wanted;
      wanted.push_back({wake_read_.number(), POLLIN, 0});
      // After an accept that found no descriptor free, the next tick is soon enough.
      wanted.push_back({Clock::now() < accept_again_ ? -1 : listener_.number(), POLLIN, 0});
      for (const Connection& connection : connections_) {
        wanted.push_back({connection.socket.number(), connection.answer.empty() ? short{POLLIN} : short{POLLOUT}, 0});
      }
      poll(wanted.data(), wanted.size(), MillisUntil(next_tick));
      if (wanted[0].revents != 0) return;
      size_t index = 2;
      for (auto it = connections_.begin(); it != connections_.end(); ++index) {
        const bool keep = wanted[index].revents == 0 || Advance(&*it);
        it = keep ? std::next(it) : connections_.erase(it);
      }
      if ((wanted[1].revents & POLLIN) != 0) Accept();
    }
  }

 private:
  struct Connection {
    Socket socket;
    Clock::time_point deadline;
    std::string request;
    std::string answer;  // empty: the request is still being read
    size_t sent = 0;     // of the answer
  };

  int MillisUntil(Clock::time_point next_tick) const {
    Clock::time_point first = next_tick;
    for (const Connection& connection : connections_) first = std::min(first, connection.deadline);
    if (Clock::now() < accept_again_) first = std::min(first, accept_again_);
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(first - Clock::now()).count() + 1;
    return static_cast<int>(std::clamp<int64_t>(millis, 0, 60000));
  }

  void DropLate() {
    const auto now = Clock::now();
    connections_.remove_if([now](const Connection& connection) { return connection.deadline < now; });
  }

  void Accept() {
    const int number = accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (number < 0) {
      const bool passing = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
      if (!passing) accept_again_ = Clock::now() + std::chrono::milliseconds(200);
      return;
    }
    if (connections_.size() >= kMaxConnections) connections_.pop_front();
    Connection connection;
    connection.socket = Socket(number);
    connection.deadline = Clock::now() + std::chrono::milliseconds(kTimeoutMillis);
    connections_.push_back(std::move(connection));
  }

  // False: the connection is done.
  bool Advance(Connection* connection) {
    if (connection->answer.empty() && !Receive(connection)) return false;
    if (connection->answer.empty()) return true;
    return Send(connection);
  }

  bool Receive(Connection* connection) {
    char buffer[2048];
    const ssize_t got = recv(connection->socket.number(), buffer, sizeof(buffer), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    connection->request.append(buffer, static_cast<size_t>(got));
    const size_t end = connection->request.find("\r\n\r\n");
    if (end != std::string::npos && end + 4 <= kMaxRequest) {
      connection->request.resize(end + 4);
      connection->answer = Answer(connection->request);
    } else if (connection->request.size() > kMaxRequest) {
      connection->answer = ErrorAnswer(431, "A request may have " + std::to_string(kMaxRequest) + " bytes.");
    }
    return true;
  }

  bool Send(Connection* connection) {
    const ssize_t sent = send(connection->socket.number(), connection->answer.data() + connection->sent,
                              connection->answer.size() - connection->sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection->sent += static_cast<size_t>(sent);
    if (connection->sent < connection->answer.size()) return true;
    // Without this, bytes of the client that nobody read would make the kernel reset the connection, and the client
    // might lose the answer.
    shutdown(connection->socket.number(), SHUT_WR);
    char rest[2048];
    for (int i = 0; i < 8 && recv(connection->socket.number(), rest, sizeof(rest), 0) > 0; ++i) {
    }
    return false;
  }

  std::string Answer(const std::string& text) const {
    Request request;
    if (!ParseRequest(text, &request)) return ErrorAnswer(400, "This is no HTTP request.");
    if (loopback_ && request.has_host && !IsLoopbackHost(request.host)) {
      return ErrorAnswer(403, "This server answers to localhost and 127.0.0.1 only.");
    }
    const bool head = request.method == "HEAD";
    if (!head && request.method != "GET") return ErrorAnswer(405, "Only GET and HEAD are answered.");
    const HttpPage* const page = pages_(request.target);
    if (page == nullptr) return ErrorAnswer(404, "The pages are / and /status.json and /metrics.");
    const HttpAnswer answer = (*page)();
    return HeaderOf(answer.code, answer.type, answer.body.size()) + (head ? "" : answer.body);
  }

  const Socket listener_;
  const bool loopback_;
  const HttpPages pages_;
  const std::function<void()> tick_;
  const std::chrono::milliseconds tick_time_;
  Socket wake_read_;
  Socket wake_write_;
  std::list<Connection> connections_;  // oldest first
  Clock::time_point accept_again_;
};

Status HttpServer::Start(const std::string& address, int port, HttpPages pages, std::function<void()> tick,
                         int tick_millis, std::unique_ptr<HttpServer>* server) {
  Socket listener;
  sockaddr_storage bound = {};
  Status s = Listen(address, port, &listener, &bound);
  if (!s.ok()) return s;
  std::unique_ptr<HttpServer> result(new HttpServer());
  result->address_ = address;
  result->port_ = ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                                   : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
  auto loop =
      std::make_unique<Loop>(std::move(listener), IsLoopback(bound), std::move(pages), std::move(tick), tick_millis);
  s = loop->Prepare();
  if (!s.ok()) return s;
  try {
    result->thread_ = std::thread([running = loop.get()] { running->Run(); });
  } catch (const std::system_error& error) {
    return Status::Busy("no thread can be had for the web server", error.what());
  }
  result->loop_ = std::move(loop);
  *server = std::move(result);
  return s;
}

HttpServer::~HttpServer() {
  if (loop_ != nullptr) loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

std::string HttpServer::url() const {
  const bool v6 = address_.find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + address_ + "]" : address_) + ":" + std::to_string(port_) + "/";
}

}  // namespace cairn
