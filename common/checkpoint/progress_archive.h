// What a run has gathered beside its model, as bytes of a checkpoint: counters, account, audit, attacks.
//
// Every class says what it is made of in a member serialize, as cereal calls it, and so it is written and read alike.
// The bytes are read by the party and the version that wrote them, from a file whose digest has been checked.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_PROGRESS_ARCHIVE_H_
#define SPLITVEIL_COMMON_CHECKPOINT_PROGRESS_ARCHIVE_H_

#include <cereal/archives/binary.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/set.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <cstdint>
#include <exception>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/matrix/matrix.h"
#include "common/process/version.h"

namespace splitveil {

template <typename Archive>
void save(Archive& archive, const Matrix& matrix) {
  archive(matrix.rows(), matrix.cols(),
          cereal::binary_data(matrix.data(), static_cast<size_t>(matrix.size()) * sizeof(float)));
}

template <typename Archive>
void load(Archive& archive, Matrix& matrix) {
  int64_t rows = 0, cols = 0;
  archive(rows, cols);
  matrix = Matrix(rows, cols);
  archive(cereal::binary_data(matrix.data(), static_cast<size_t>(matrix.size()) * sizeof(float)));
}

template <typename... Parts>
std::string SaveProgress(const Parts&... parts) {
  std::ostringstream bytes;
  cereal::BinaryOutputArchive archive(bytes);
  archive(std::string(Version()), parts...);
  return bytes.str();
}

// Errors: InvalidArgument where another version has written them, or they are not of these parts, which are then to be
// thrown away.
template <typename... Parts>
absl::Status LoadProgress(absl::string_view bytes, Parts&... parts) {
  try {  // The one place where cereal's exceptions end.
    std::istringstream stream{std::string(bytes)};
    cereal::BinaryInputArchive archive(stream);
    std::string version;
    archive(version);
    if (version != Version()) {
      return absl::InvalidArgumentError(absl::StrCat("progress: expected that of a run of version ", Version(),
                                                     ", found one of ", version,
                                                     ": continue it with that version, or set starts_anew"));
    }
    archive(parts...);
    return absl::OkStatus();
  } catch (const std::exception&) {
    return absl::InvalidArgumentError("progress: expected what this party's runs gather, found something else");
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_PROGRESS_ARCHIVE_H_
