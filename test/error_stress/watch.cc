#include "test/error_stress/watch.h"

#include <unistd.h>

#include <cstdio>
#include <sstream>

namespace cairn {
namespace errors {

using std::chrono::steady_clock;

void Verdict::Fail(const std::string& what) const {
  std::fprintf(stderr, "%s\n%s replays the same choices, not the same moments\n", what.c_str(), replay_.c_str());
  _exit(1);
}

Watch::Doing::Doing(Watch* watch, const std::string& what) : watch_(watch) {
  const std::lock_guard<std::mutex> lock(watch_->mu_);
  entry_ = watch_->doing_.emplace(watch_->doing_.end(), what, steady_clock::now());
}

Watch::Doing::~Doing() {
  const std::lock_guard<std::mutex> lock(watch_->mu_);
  watch_->doing_.erase(entry_);
}

void Watch::Expect(std::chrono::seconds patience) {
  expects_ = true;
  thread_ = std::thread([this, patience] {
    std::unique_lock<std::mutex> lock(mu_);
    if (!settled_.wait_for(lock, patience, [this] { return !expects_; })) verdict_->Fail(UnderWay());
  });
}

void Watch::Settle() {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    expects_ = false;
  }
  settled_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string Watch::UnderWay() {
  std::ostringstream text;
  for (const auto& [what, since] : doing_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - since).count();
    text << what << " does not end; it began " << seconds << " seconds ago\n";
  }
  text << "All disks are well; gdb would show the stacks of a run with a longer --patience.";
  return text.str();
}

}  // namespace errors
}  // namespace cairn
