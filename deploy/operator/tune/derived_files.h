// Configuration files made from a party's own, beside them: FILE.KIND.textproto.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_TUNE_DERIVED_FILES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_TUNE_DERIVED_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace splitveil {

// `first_line` says who wrote a file, so that nobody else's is overwritten.
struct DerivedKind {
  const char* name;
  const char* command;
  const char* first_line;
};
inline constexpr DerivedKind kTuned = {"tuned", "tune", "# Settings that `splitveil tune` chose.\n"};
inline constexpr DerivedKind kBaseline = {"baseline", "baseline",
                                          "# Logistic regression, as `splitveil baseline` writes it.\n"};

// "dir/run.textproto" -> "dir/run.tuned.textproto".
std::string DerivedPath(const DerivedKind& kind, const std::string& path);

// The file as its owner wrote it, its paths as they are. Errors: see ReadTextConfig and ParseTextConfig.
absl::Status ReadAsWritten(const std::string& path, google::protobuf::Message& message);

// That what stands at the derived path, if anything, is of this kind. Errors: InvalidArgument if it is not.
absl::Status CheckDerivedPath(const DerivedKind& kind, const std::string& path);

// Writes `message` to the derived path. `why`: a line of comment, without "#". Errors: see WriteFile.
absl::Status WriteDerived(const DerivedKind& kind, const std::string& path, const std::string& why,
                          const google::protobuf::Message& message);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_TUNE_DERIVED_FILES_H_
