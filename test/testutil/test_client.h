// Asks a web server on the loopback address. For tests.

#pragma once

#include <string>

namespace cairn {

// A connected socket, which the caller closes; a failure fails the test.
int Connect(int port);

// All that the server says until it closes the connection.
std::string ReadAll(int socket);

// Sends `request` and hands back the whole answer, with its header.
std::string Ask(int port, const std::string& request);
std::string Get(int port, const std::string& target, const std::string& host = "localhost");

// The body of an answer of code 200; else a failure of the test.
std::string BodyOf(int port, const std::string& target);

}  // namespace cairn
