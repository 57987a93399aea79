#include "test/testutil/test_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cairn {

int Connect(int port) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(number, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return number;
}

std::string ReadAll(int socket) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = recv(socket, buffer, sizeof(buffer), 0)) > 0) text.append(buffer, static_cast<size_t>(got));
  return text;
}

std::string Ask(int port, const std::string& request) {
  const int number = Connect(port);
  send(number, request.data(), request.size(), MSG_NOSIGNAL);
  const std::string answer = ReadAll(number);
  close(number);
  return answer;
}

std::string Get(int port, const std::string& target, const std::string& host) {
  return Ask(port, "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
}

std::string BodyOf(int port, const std::string& target) {
  const std::string answer = Get(port, target);
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 200") << answer.substr(0, 1000);
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : answer.substr(end + 4);
}

}  // namespace cairn
