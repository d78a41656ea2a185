// --name=value command lines.
#ifndef SPLITVEIL_COMMON_PROCESS_FLAGS_H_
#define SPLITVEIL_COMMON_PROCESS_FLAGS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace splitveil {

struct FlagSpec {
  std::string name;           // Without dashes.
  std::string default_value;  // Where the flag is absent. A list is then empty.
  std::string help;           // One line.
  bool required = false;
  bool is_switch = false;  // --name alone means "true".
  bool is_list = false;    // May be given several times; read by GetList.
};

// Parsed flags. Every value is there, its default at least. Asking for a flag that the specs do not have is a bug and
// ends the process.
class Flags {
 public:
  // Parses argv[first..]. Errors: InvalidArgument for an unknown flag, a missing or empty value, a flag given twice, a
  // switch that is neither true nor false, a missing required flag or a stray word, with the flags that exist. Where a
  // switch named help or version is declared and given, required flags may be missing.
  static absl::StatusOr<Flags> Parse(int argc, char** argv, int first, const std::vector<FlagSpec>& specs);

  // The value; of a list the last one.
  const std::string& Get(const std::string& name) const;
  // All values of a list in the order given.
  const std::vector<std::string>& GetList(const std::string& name) const;
  bool GetSwitch(const std::string& name) const;
  // Errors: InvalidArgument with the flag, the range and what was found.
  absl::StatusOr<int64_t> GetInt(const std::string& name, int64_t min = std::numeric_limits<int64_t>::min(),
                                 int64_t max = std::numeric_limits<int64_t>::max()) const;
  // Finite numbers only. Errors as GetInt.
  absl::StatusOr<double> GetDouble(const std::string& name, double min = std::numeric_limits<double>::lowest(),
                                   double max = std::numeric_limits<double>::max()) const;

  // Usage text, one line a flag.
  static std::string Help(const std::string& usage, const std::vector<FlagSpec>& specs);

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<std::string>> lists_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_FLAGS_H_
