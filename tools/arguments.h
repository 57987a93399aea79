// Arguments reads the flags of one command. Every flag is bound to a variable that holds its default; the help text is
// made from what was bound. Names, numbers and units are checked before the command does anything.
//
//   std::string path;
//   uint64_t cache = 64 << 20;
//   Arguments arguments("stats", "Prints what a trie holds, depth by depth.");
//   arguments.Positional("DB", &path, "the database's directory");
//   arguments.Bytes("cache", &cache, "block cache");
//   if (!arguments.Parse(argc, argv)) return arguments.exit_code();
//
// A flag is --name VALUE or --name=VALUE; dashes and underscores in names are the same. "--" ends the flags.
//
// Not thread-safe. The bound variables must outlive Parse, which writes them even when it fails later on.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace cairn {

class Arguments {
 public:
  // `description`: what the command does, plain text, one or more lines.
  Arguments(const std::string& command, const std::string& description);

  // What is not a flag, in order.
  void Positional(const std::string& name, std::string* value, const std::string& help);

  void Text(const std::string& name, std::string* value, const std::string& placeholder, const std::string& help);
  // May be given several times; each occurrence appends.
  void Texts(const std::string& name, std::vector<std::string>* values, const std::string& placeholder,
             const std::string& help);
  // One of `choices`.
  void Choice(const std::string& name, std::string* value, const std::vector<std::string>& choices,
              const std::string& help);
  // --name, --name=true or --name=false.
  void Switch(const std::string& name, bool* value, const std::string& help);
  // Whole numbers from `low` to `high`; K, M and G stand for thousands, millions and billions.
  void Count(const std::string& name, uint64_t* value, const std::string& help, uint64_t low = 0,
             uint64_t high = std::numeric_limits<uint64_t>::max());
  void Integer(const std::string& name, int* value, const std::string& help, int low = 0,
               int high = std::numeric_limits<int>::max());
  // Bytes: B, K = KiB, M = MiB, G = GiB, T = TiB are powers of 1024; KB, MB, GB and TB are powers of 1000.
  void Bytes(const std::string& name, uint64_t* value, const std::string& help, uint64_t low = 0,
             uint64_t high = std::numeric_limits<uint64_t>::max());
  // Finite, from `low` to `high`.
  void Number(const std::string& name, double* value, const std::string& help, double low = 0,
              double high = std::numeric_limits<double>::max());
  // Seconds: us, ms, s (also without unit), m, h.
  void Seconds(const std::string& name, double* value, const std::string& help);

  // False: return exit_code() from the command. It is 0 after --help, which was printed on stdout, and 2 after an
  // error, which was printed on stderr.
  bool Parse(int argc, char** argv);
  int exit_code() const { return exit_code_; }

  // Whether the flag was on the command line. After Parse.
  bool Given(const std::string& name) const;

  // Prints "cairn COMMAND: message" and a pointer to the help on stderr, for contradictions that the command finds
  // itself. Returns kExitUsage.
  int UsageError(const std::string& message) const;

  // The error message of Parse; empty: none. For tests.
  const std::string& error() const { return error_; }
  std::string HelpText() const;

 private:
  struct Flag {
    std::string name;  // with dashes
    std::string placeholder;
    std::string help;
    std::string default_text;  // empty: none to show
    bool is_switch = false;
    bool repeats = false;
    bool given = false;
    // Stores the value; the returned message says what the value may be. Empty: stored.
    std::function<std::string(const std::string&)> store;
  };
  struct Place {
    std::string name;
    std::string help;
    std::string* value = nullptr;
  };

  template <typename T>
  struct NumberKind {
    const char* placeholder;
    std::string what;
    const char* examples;
    bool (*parse)(const std::string& text, T* value);
    std::string (*print)(T value);
  };

  Flag* Add(const std::string& name, const std::string& placeholder, const std::string& help);
  template <typename T>
  void AddNumber(const std::string& name, T* value, const std::string& help, T low, T high, const NumberKind<T>& kind);
  Flag* Find(const std::string& name);
  bool ParseAll(int argc, char** argv);
  bool Fail(const std::string& message);

  std::string command_;
  std::string description_;
  std::vector<Flag> flags_;
  std::vector<Place> places_;
  std::string error_;
  int exit_code_ = 0;
};

// The values behind the flags, for text that comes from elsewhere. False: not such a value (NaN, negative, overflow,
// trailing characters); *value is unchanged.
bool ParseCount(const std::string& text, uint64_t* value);
bool ParseBytes(const std::string& text, uint64_t* value);
bool ParseNumber(const std::string& text, double* value);
bool ParseSeconds(const std::string& text, double* value);

}  // namespace cairn
