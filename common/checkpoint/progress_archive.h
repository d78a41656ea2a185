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
#include <istream>
#include <ostream>
#include <random>
#include <sstream>
#include <streambuf>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/matrix/matrix.h"
#include "common/process/runtime.h"

namespace cereal {

// Where cereal looks for it: a generator continues with the numbers that it would have drawn.
template <typename Archive>
void save(Archive& archive, const std::mt19937_64& generator) {
  std::ostringstream text;
  text << generator;
  archive(text.str());
}

template <typename Archive>
void load(Archive& archive, std::mt19937_64& generator) {
  std::string text;
  archive(text);
  if (!(std::istringstream(text) >> generator)) {
    throw Exception("expected the state of a generator");
  }
}

}  // namespace cereal

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

// For a part that has just been read: unless `fits`, LoadProgress fails.
inline void RefuseUnless(bool fits) {
  if (!fits) {
    throw cereal::Exception("expected what fits the run");
  }
}

// Progress may be as large as all activations of many epochs, so its bytes are held once: counted, then written to the
// end of `bytes`, where there is room for them, or read where they lie.
class ProgressBytes : public std::streambuf {
 public:
  ProgressBytes() = default;
  explicit ProgressBytes(std::string* bytes) : written_(bytes) {}
  explicit ProgressBytes(absl::string_view bytes) {
    char* const begin = const_cast<char*>(bytes.data());  // A get area is never written to.
    setg(begin, begin, begin + bytes.size());
  }

  template <typename... Parts>
  void Save(const Parts&... parts) {
    std::ostream stream(this);
    cereal::BinaryOutputArchive archive(stream);
    archive(std::string(Version()), parts...);
  }
  size_t saved() const { return saved_; }

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    saved_ += static_cast<size_t>(count);
    if (written_ != nullptr) {
      written_->append(bytes, static_cast<size_t>(count));
    }
    return count;
  }

 private:
  std::string* const written_ = nullptr;
  size_t saved_ = 0;
};

template <typename... Parts>
std::string SaveProgress(const Parts&... parts) {
  ProgressBytes counted;
  counted.Save(parts...);
  std::string bytes;
  bytes.reserve(counted.saved());
  ProgressBytes(&bytes).Save(parts...);
  return bytes;
}

// Errors: InvalidArgument where another version has written them, or they are not of these parts, which are then to be
// thrown away.
template <typename... Parts>
absl::Status LoadProgress(absl::string_view bytes, Parts&... parts) {
  try {  // The one place where cereal's exceptions end.
    ProgressBytes buffer(bytes);
    std::istream stream(&buffer);
    cereal::BinaryInputArchive archive(stream);
    std::string version;
    archive(version);
    if (version != Version()) {
      return absl::InvalidArgumentError(absl::StrCat("progress: this program has version ", Version(),
                                                     ", but the run to resume was made by version ", version,
                                                     ": resume it with that version, or set restart"));
    }
    archive(parts...);
    return absl::OkStatus();
  } catch (const std::exception&) {
    return absl::InvalidArgumentError(
        "progress: the checkpoint has a different run's progress, or is from a different version");
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_PROGRESS_ARCHIVE_H_
