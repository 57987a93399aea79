#include "tools/status/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "test/support.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/test_client.h"

namespace cairn {
namespace {

constexpr int kTickMillis = 50;

#define EXPECT_ANSWER(code, answer) EXPECT_EQ((answer).substr(0, 12), "HTTP/1.1 " #code) << (answer)

class HttpServerTest : public ::testing::Test {
 protected:
  Status Start(const std::string& address = "127.0.0.1", int port = 0) {
    page_ = [this] {
      ++pages_;
      return HttpAnswer{200, "text/plain", body_};
    };
    return HttpServer::Start(
        address, port, [this](const std::string& target) { return target == "/page" ? &page_ : nullptr; },
        [this] { ++ticks_; }, kTickMillis, &server_);
  }

  HttpPage page_;
  std::string body_ = "hello\n";
  std::atomic<int> pages_{0}, ticks_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersItsPagesAndNothingElse) {
  ASSERT_OK(Start());
  EXPECT_EQ(server_->url(), "http://127.0.0.1:" + std::to_string(server_->port()) + "/");
  const std::string answer = Get(server_->port(), "/page");
  EXPECT_ANSWER(200, answer);
  EXPECT_NE(answer.find("\r\nContent-Length: 6\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\r\nContent-Security-Policy: default-src 'none'"), std::string::npos);
  EXPECT_EQ(answer.substr(answer.size() - 10), "\r\n\r\nhello\n");
  EXPECT_GE(ticks_, 1);
  for (const char* target : {"/", "/page?x=1", "/page/", "/../page", "//page", "http://localhost/page", "*"}) {
    EXPECT_ANSWER(404, Get(server_->port(), target));
  }
  const std::string head = Ask(server_->port(), "HEAD /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_ANSWER(200, head);
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
  EXPECT_NE(head.find("\r\nContent-Length: 6\r\n"), std::string::npos);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"}) {
    EXPECT_ANSWER(405, Ask(server_->port(), method + std::string(" /page HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  }
}

TEST_F(HttpServerTest, ForeignHostsAreRefusedOnLoopback) {
  ASSERT_OK(Start());
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:80"}) {
    EXPECT_ANSWER(200, Get(server_->port(), "/page", host)) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "",
                           "[::1]evil", "0x7f000001", "2130706433"}) {
    EXPECT_ANSWER(403, Get(server_->port(), "/page", host)) << host;
  }
  // Of HTTP/1.0, without a Host; no browser sends that.
  EXPECT_ANSWER(200, Ask(server_->port(), "GET /page HTTP/1.0\r\n\r\n"));
  EXPECT_ANSWER(400, Ask(server_->port(), "GET /page HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"));
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefused) {
  ASSERT_OK(Start());
  for (const char* request : {"\r\n\r\n", "GET\r\n\r\n", "GET  HTTP/1.1\r\n\r\n", "GET /page\r\n\r\n",
                              "GET /page HTTP/2\r\n\r\n", "GET /page HTTP/1.1\r\nno colon\r\n\r\n", " \r\n\r\n"}) {
    EXPECT_ANSWER(400, Ask(server_->port(), request)) << request;
  }
  EXPECT_ANSWER(431, Ask(server_->port(), "GET /page HTTP/1.1\r\nX: " + std::string(20000, 'x') + "\r\n\r\n"));
  EXPECT_ANSWER(431, Ask(server_->port(), std::string(1 << 16, '\0')));
  const uint64_t seed = test::SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  test::Random random(seed);
  for (int i = 0; i < 200; ++i) {
    std::string noise = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (uint64_t change = random.Uniform(6); change-- > 0;) {
      noise[random.Uniform(noise.size())] = static_cast<char>(random.Uniform(256));
    }
    noise += "\r\n\r\n";
    const std::string answer = Ask(server_->port(), noise);
    EXPECT_EQ(answer.substr(0, 9), "HTTP/1.1 ") << answer;
  }
  EXPECT_ANSWER(200, Get(server_->port(), "/page"));
}

TEST_F(HttpServerTest, LargeAnswersAndSlowReadersAndSlowWriters) {
  body_ = std::string(8 << 20, 'b');
  ASSERT_OK(Start());
  const int slow = Connect(server_->port());
  const std::string request = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char c : request) send(slow, &c, 1, MSG_NOSIGNAL);
  // It has more to read than buffers hold; others are answered meanwhile.
  EXPECT_GT(Get(server_->port(), "/page").size(), body_.size());
  EXPECT_GT(ReadAll(slow).size(), body_.size());
  close(slow);
  const int gone = Connect(server_->port());
  send(gone, request.data(), request.size(), MSG_NOSIGNAL);
  close(gone);
  EXPECT_GT(Get(server_->port(), "/page").size(), body_.size());
}

TEST_F(HttpServerTest, ManyIdleConnectionsKeepNobodyOut) {
  ASSERT_OK(Start());
  std::vector<int> idle;
  for (size_t i = 0; i < 3 * HttpServer::kMaxConnections; ++i) idle.push_back(Connect(server_->port()));
  EXPECT_ANSWER(200, Get(server_->port(), "/page"));
  // The first ones were closed for the last ones.
  EXPECT_EQ(ReadAll(idle[0]), "");
  for (const int number : idle) close(number);
}

TEST_F(HttpServerTest, ErrorsAreStatuses) {
  ASSERT_OK(Start());
  std::unique_ptr<HttpServer> first = std::move(server_);
  EXPECT_TRUE(Says(Start("127.0.0.1", first->port()), &Status::IsBusy, std::to_string(first->port())));
  EXPECT_TRUE(Start("example.org").IsInvalidArgument());
  EXPECT_TRUE(Start("").IsInvalidArgument());
  EXPECT_TRUE(Start("192.0.2.1").IsInvalidArgument());  // an address for documents, of no machine
  EXPECT_TRUE(Start("127.0.0.1", -1).IsInvalidArgument());
  EXPECT_TRUE(Start("127.0.0.1", 65536).IsInvalidArgument());
  EXPECT_EQ(server_, nullptr);
  EXPECT_ANSWER(200, Get(first->port(), "/page"));
}

TEST_F(HttpServerTest, NoFreeDescriptorsIsSurvived) {
  ASSERT_OK(Start());
  const int number = Connect(server_->port());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(number) + 1;
  const std::string request = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const int waiting = Connect(server_->port());
  send(waiting, request.data(), request.size(), MSG_NOSIGNAL);
  ReadAll(waiting);  // accepted: both descriptors of it are there
  const int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(late, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  send(late, request.data(), request.size(), MSG_NOSIGNAL);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_ANSWER(200, ReadAll(late));
  close(number);
  close(waiting);
  close(late);
}

TEST_F(HttpServerTest, EndsWhileOthersAskAndTicks) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK(Start());
    std::vector<std::thread> clients;
    std::atomic<bool> stop{false};
    for (int i = 0; i < 3; ++i) {
      clients.emplace_back([this, port = server_->port(), &stop] {
        while (!stop) {
          const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
          sockaddr_in address = {};
          address.sin_family = AF_INET;
          address.sin_port = htons(static_cast<uint16_t>(port));
          address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          if (connect(number, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
            send(number, "GET /page HTTP/1.0\r\n\r\n", 22, MSG_NOSIGNAL);
            ReadAll(number);
          }
          close(number);
        }
      });
    }
    while (pages_ < 10 * (round + 1)) std::this_thread::yield();
    server_.reset();
    const int pages = pages_, ticks = ticks_;
    stop = true;
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(pages_, pages);
    EXPECT_EQ(ticks_, ticks);
  }
}

TEST_F(HttpServerTest, ListensOnIpv6WhereThereIsSome) {
  const Status s = Start("::1");
  if (!s.ok()) GTEST_SKIP() << s.ToString();
  EXPECT_EQ(server_->url(), "http://[::1]:" + std::to_string(server_->port()) + "/");
}

}  // namespace
}  // namespace cairn
