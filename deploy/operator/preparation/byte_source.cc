#include "deploy/operator/preparation/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr int kGzipWindowBits = 15 + 16;  // zlib: the largest window, gzip framing only.

// A file, or memory when `file` is null.
class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::FILE* file) : file_(file) {}
  explicit PlainSource(std::string bytes) : pending_(std::move(bytes)) {}
  PlainSource(const PlainSource&) = delete;
  PlainSource& operator=(const PlainSource&) = delete;
  ~PlainSource() override {
    if (file_ != nullptr) {
      std::fclose(file_);
    }
  }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    const size_t from_pending = std::min(bytes, pending_.size() - consumed_);
    if (from_pending > 0) {
      std::memcpy(out, pending_.data() + consumed_, from_pending);
      consumed_ += from_pending;
      return from_pending;
    }
    return ReadFile(out, bytes);
  }

  // The next bytes, at most `bytes`, without consuming them. Only before the first Read.
  absl::StatusOr<absl::string_view> Peek(size_t bytes) {
    if (pending_.empty()) {
      pending_.resize(bytes);
      SPLITVEIL_ASSIGN_OR_RETURN(size_t count, ReadFile(&pending_[0], bytes));
      pending_.resize(count);
    }
    return absl::string_view(pending_).substr(0, bytes);
  }

 private:
  absl::StatusOr<size_t> ReadFile(char* out, size_t bytes) {
    if (file_ == nullptr) {
      return size_t{0};
    }
    errno = 0;
    const size_t count = std::fread(out, 1, bytes, file_);
    if (count == 0 && std::ferror(file_) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", std::strerror(errno)));
    }
    return count;
  }

  std::FILE* file_ = nullptr;
  std::string pending_;
  size_t consumed_ = 0;
};

// Inflates another source. zlib's own gzFile is not used: it takes garbage behind a stream for its end, and a stream
// cut inside the header for plain text.
class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)), input_(kChunkBytes), stream_() {
    initialised_ = inflateInit2(&stream_, kGzipWindowBits) == Z_OK;
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override {
    if (initialised_) {
      inflateEnd(&stream_);
    }
  }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    if (!initialised_) {
      return absl::InternalError("zlib cannot be initialised");
    }
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out == bytes) {
      if (stream_.avail_in == 0) {
        SPLITVEIL_ASSIGN_OR_RETURN(size_t count, compressed_->Read(input_.data(), input_.size()));
        if (count == 0) {
          if (inside_member_) {
            return absl::InvalidArgumentError("the gzip stream is cut short");
          }
          return size_t{0};
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(count);
      }
      inside_member_ = true;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        inside_member_ = false;
        inflateReset(&stream_);
      } else if (code != Z_OK) {
        return absl::InvalidArgumentError("the gzip stream is damaged");
      }
    }
    return bytes - stream_.avail_out;
  }

 private:
  std::unique_ptr<ByteSource> compressed_;
  std::vector<char> input_;
  z_stream stream_;
  bool initialised_ = false;
  bool inside_member_ = true;
};

absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<PlainSource> plain) {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view magic, plain->Peek(2));
  if (magic == absl::string_view("\x1f\x8b", 2)) {
    return std::make_unique<GzipSource>(std::move(plain));
  }
  return plain;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    const int error = errno;
    const std::string message = absl::StrCat("cannot be opened: ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  // Reads are large already: a second buffer would only copy.
  std::setvbuf(file, nullptr, _IONBF, 0);
  return Unpacked(std::make_unique<PlainSource>(file));
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::FromBytes(std::string bytes) {
  return Unpacked(std::make_unique<PlainSource>(std::move(bytes)));
}

}  // namespace splitveil
