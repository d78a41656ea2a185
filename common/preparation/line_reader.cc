#include "common/preparation/line_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr int kGzipWindowBits = 15 + 16;  // zlib: the largest window, gzip framing only.

}  // namespace

// Where bytes come from. Read fills at most `bytes` and returns how many; 0 at the end only.
class LineReader::Source {
 public:
  virtual ~Source() = default;
  virtual absl::StatusOr<size_t> Read(char* out, size_t bytes) = 0;
  // The next bytes, at most `bytes`, without consuming them. Only before the first Read.
  virtual absl::StatusOr<absl::string_view> Peek(size_t bytes) = 0;
};

// A file, or memory when `file` is null.
class LineReader::PlainSource : public LineReader::Source {
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

  absl::StatusOr<absl::string_view> Peek(size_t bytes) override {
    if (pending_.empty()) {
      pending_.resize(bytes);
      absl::StatusOr<size_t> count = ReadFile(&pending_[0], bytes);
      if (!count.ok()) {
        return count.status();
      }
      pending_.resize(*count);
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
class LineReader::GzipSource : public LineReader::Source {
 public:
  explicit GzipSource(std::unique_ptr<Source> compressed)
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
        absl::StatusOr<size_t> count = compressed_->Read(input_.data(), input_.size());
        if (!count.ok()) {
          return count.status();
        }
        if (*count == 0) {
          if (inside_member_) {
            return absl::InvalidArgumentError("the gzip stream is cut short");
          }
          return size_t{0};
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(*count);
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

  absl::StatusOr<absl::string_view> Peek(size_t /*bytes*/) override {
    return absl::InternalError("a gzip stream cannot be looked into ahead");
  }

 private:
  std::unique_ptr<Source> compressed_;
  std::vector<char> input_;
  z_stream stream_;
  bool initialised_ = false;
  bool inside_member_ = true;
};

LineReader::LineReader(std::string name, int64_t max_line_bytes, std::unique_ptr<Source> source)
    : name_(std::move(name)),
      source_(std::move(source)),
      max_line_bytes_(max_line_bytes),
      buffer_(static_cast<size_t>(max_line_bytes) + 2) {}  // Room for CR LF.

LineReader::~LineReader() = default;

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path, int64_t max_line_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    const int error = errno;
    const std::string message = absl::StrCat(path, ": cannot be opened: ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  // Our reads are large already: a second buffer would only copy.
  std::setvbuf(file, nullptr, _IONBF, 0);
  return Create(path, max_line_bytes, std::make_unique<PlainSource>(file));
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::FromBytes(std::string name, std::string bytes,
                                                                  int64_t max_line_bytes) {
  return Create(std::move(name), max_line_bytes, std::make_unique<PlainSource>(std::move(bytes)));
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Create(std::string name, int64_t max_line_bytes,
                                                               std::unique_ptr<Source> plain) {
  if (max_line_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_line_bytes: expected at least 1, found ", max_line_bytes));
  }
  absl::StatusOr<absl::string_view> magic = plain->Peek(2);
  if (!magic.ok()) {
    return absl::Status(magic.status().code(), absl::StrCat(name, ": ", magic.status().message()));
  }
  const bool gzip = *magic == absl::string_view("\x1f\x8b", 2);
  std::unique_ptr<Source> source = std::move(plain);
  if (gzip) {
    source = std::make_unique<GzipSource>(std::move(source));
  }
  return std::unique_ptr<LineReader>(new LineReader(std::move(name), max_line_bytes, std::move(source)));
}

absl::StatusOr<bool> LineReader::Next(absl::string_view* line) {
  if (!failure_.ok()) {
    return failure_;
  }
  absl::StatusOr<bool> more = ReadLine(line);
  if (!more.ok()) {
    failure_ =
        absl::Status(more.status().code(), absl::StrCat(name_, ":", line_number_ + 1, ": ", more.status().message()));
    return failure_;
  }
  line_number_ += *more ? 1 : 0;
  return more;
}

absl::StatusOr<bool> LineReader::ReadLine(absl::string_view* line) {
  size_t searched = 0;  // Bytes behind begin_ known to hold no line end.
  while (true) {
    const char* start = buffer_.data() + begin_;
    const size_t unread = end_ - begin_;
    const void* line_end = std::memchr(start + searched, '\n', unread - searched);
    if (line_end != nullptr || (source_ended_ && unread > 0)) {
      const size_t length = line_end == nullptr ? unread : static_cast<const char*>(line_end) - start;
      begin_ += length + (line_end == nullptr ? 0 : 1);
      const bool carriage_return = length > 0 && start[length - 1] == '\r';
      *line = absl::string_view(start, length - (carriage_return ? 1 : 0));
      if (line->size() > static_cast<size_t>(max_line_bytes_)) {
        return absl::InvalidArgumentError(absl::StrCat("the line is longer than ", max_line_bytes_, " bytes"));
      }
      return true;
    }
    if (source_ended_) {
      return false;
    }
    if (unread == buffer_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the line is longer than ", max_line_bytes_, " bytes"));
    }
    searched = unread;
    absl::Status refilled = Refill();
    if (!refilled.ok()) {
      return refilled;
    }
  }
}

absl::Status LineReader::Refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  absl::StatusOr<size_t> count = source_->Read(buffer_.data() + end_, std::min(buffer_.size() - end_, kChunkBytes));
  if (!count.ok()) {
    return count.status();
  }
  source_ended_ = *count == 0;
  end_ += *count;
  return absl::OkStatus();
}

absl::Status LineReader::ErrorAt(int64_t column, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_number_, ":", column, ": ", message));
}

}  // namespace splitveil
