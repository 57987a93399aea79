#include "test/testutil/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace cairn {
namespace {

// In the child: never returns.
void Execute(const std::vector<std::string>& words, int out, int err) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  dup2(out, 1);
  dup2(err, 2);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

std::string ProgramPath(const std::string& name) {
  const char* build = std::getenv("CAIRN_BUILD_DIR");
  return std::string(build == nullptr ? "build" : build) + "/bin/" + name;
}

int WaitForProgram(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool HasEnded(pid_t pid) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

pid_t StartProgram(const std::vector<std::string>& words) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    Execute(words, nowhere, nowhere);
  }
  return pid;
}

ProgramResult RunProgram(const std::vector<std::string>& words) {
  ProgramResult result;
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return result;
  const pid_t pid = fork();
  if (pid == 0) Execute(words, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  struct pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&result.out, &result.err};
  int open_ends = 2;
  while (open_ends > 0 && poll(ends, 2, -1) > 0) {
    for (int i = 0; i < 2; i++) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t size = read(ends[i].fd, buffer, sizeof(buffer));
      if (size > 0) {
        texts[i]->append(buffer, static_cast<size_t>(size));
        continue;
      }
      close(ends[i].fd);
      ends[i].fd = -1;
      open_ends--;
    }
  }
  result.exit_code = WaitForProgram(pid);
  return result;
}

ProgramResult RunBuilt(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ProgramPath(name));
  return RunProgram(arguments);
}

}  // namespace cairn
