// Bytes of a file, plain or packed.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_BYTE_SOURCE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_BYTE_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Standard input as a path. Like a pipe that has a path, it is copied to a file without a name when it is first opened,
// so that it can be opened again.
inline constexpr absl::string_view kStandardInput = "-";

// A stream read once. gzip, zstd and xz are recognised by their magic bytes, not by the file's name; several members in
// a row read as one text. Messages do not name the file. Not thread-safe, and nor is opening standard input.
class ByteSource {
 public:
  enum class Contents { kText, kBytes };
  // NotFound if there is no such file; InvalidArgument if it cannot be opened or read; for kText, also if it is a
  // spreadsheet, a Parquet file or the like, with how to convert it.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path, Contents contents = Contents::kText);
  // The same over bytes in memory.
  static absl::StatusOr<std::unique_ptr<ByteSource>> FromBytes(std::string bytes, Contents contents = Contents::kText);

  virtual ~ByteSource() = default;
  // Fills at most `bytes`, at least 1, and returns how many; 0 at the end only. InvalidArgument if the file cannot
  // be read or a packed stream is damaged or cut short.
  virtual absl::StatusOr<size_t> Read(char* out, size_t bytes) = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_BYTE_SOURCE_H_
