// --name=value command lines.
#ifndef SPLITVEIL_COMMON_PROCESS_FLAGS_H_
#define SPLITVEIL_COMMON_PROCESS_FLAGS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace splitveil {

struct FlagSpec {
  std::string name;           // Without dashes.
  std::string default_value;  // Where the flag is absent.
  std::string help;           // One line.
  bool required = false;
  bool is_switch = false;  // --name alone means "true".
};

// Parsed flags. Every value is there, its default at least.
class Flags {
 public:
  // Parses argv[first..]. Errors: InvalidArgument for an unknown flag, a missing value, a missing required flag or a
  // stray word, with the flags that exist.
  static absl::StatusOr<Flags> Parse(int argc, char** argv, int first, const std::vector<FlagSpec>& specs);

  const std::string& Get(const std::string& name) const;
  bool GetSwitch(const std::string& name) const;
  absl::StatusOr<int64_t> GetInt(const std::string& name) const;
  absl::StatusOr<double> GetDouble(const std::string& name) const;

  // Usage text, one line a flag.
  static std::string Help(const std::string& usage, const std::vector<FlagSpec>& specs);

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_FLAGS_H_
