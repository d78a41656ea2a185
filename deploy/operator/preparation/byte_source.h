// Bytes of a file, plain or gzip.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_BYTE_SOURCE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_BYTE_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace splitveil {

// A stream read once. gzip is recognised by its magic bytes, not by the file's name; several members in a row read as
// one text. Messages do not name the file. Not thread-safe.
class ByteSource {
 public:
  // NotFound if there is no such file; InvalidArgument if it cannot be opened or read.
  static absl::StatusOr<std::unique_ptr<ByteSource>> Open(const std::string& path);
  // The same over bytes in memory.
  static absl::StatusOr<std::unique_ptr<ByteSource>> FromBytes(std::string bytes);

  virtual ~ByteSource() = default;
  // Fills at most `bytes`, at least 1, and returns how many; 0 at the end only. InvalidArgument if the file cannot
  // be read or the gzip stream is damaged or cut short.
  virtual absl::StatusOr<size_t> Read(char* out, size_t bytes) = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_BYTE_SOURCE_H_
