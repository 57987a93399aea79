// What lies on a disk in each of Cairn's formats, to be damaged and read again (bit_flips.cc).

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "test/testutil/random.h"

namespace cairn::flips {

enum class Answers {
  kRight,    // all of them, in spite of the damage
  kRefused,  // an error somewhere, everything else right
  kWrong,
};

class Format {
 public:
  virtual ~Format() = default;
  Format(const Format&) = delete;
  Format& operator=(const Format&) = delete;

  // Writes files into an empty folder. A process of its own does it, and ends afterwards without closing anything.
  virtual bool Make(const std::string& folder, test::Random* random) = 0;
  // Reads what is to be known of the intact files. Returns the files that are to be damaged, none if it fails.
  virtual std::vector<std::string> Load(const std::string& folder) = 0;
  // Opens the files, of which a bit may be another, and asks for some of what they hold. *what says what is wrong, or
  // how it was refused.
  virtual Answers Ask(test::Random* random, std::string* what) = 0;
  // Ask may change the files.
  virtual bool Writes() const { return false; }

 protected:
  Format() = default;
};

const std::vector<std::string>& FormatNames();
// Null for a name that is none.
std::unique_ptr<Format> NewFormat(const std::string& name);

}  // namespace cairn::flips
