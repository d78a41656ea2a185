#include "deploy/operator/preparation/byte_source.h"

#include <fcntl.h>
#include <lzma.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;
constexpr int kGzipWindowBits = 15 + 16;  // zlib: the largest window, gzip framing only.
// What `xz -9` writes takes 65 MiB; a header may ask for 4 GiB.
constexpr uint64_t kXzMemoryBytes = uint64_t{1} << 30;

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

// What is not decoded yet, and room for what is.
struct Window {
  const char* in = nullptr;
  size_t in_left = 0;
  char* out = nullptr;
  size_t out_left = 0;
};

class Decoder {
 public:
  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  virtual ~Decoder() = default;
  virtual const char* format() const = 0;
  // Moves on in both buffers. Returns whether the file may end behind what was read.
  virtual absl::StatusOr<bool> Decode(Window& window) = 0;

 protected:
  absl::Status Damaged() const {
    return absl::InvalidArgumentError(absl::StrCat("the ", format(), " stream is damaged"));
  }
};

// zlib's own gzFile is not used: it takes garbage behind a stream for its end, and a stream cut inside the header for
// plain text.
class GzipDecoder : public Decoder {
 public:
  GzipDecoder() : stream_() { initialised_ = inflateInit2(&stream_, kGzipWindowBits) == Z_OK; }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  const char* format() const override { return "gzip"; }

  absl::StatusOr<bool> Decode(Window& window) override {
    if (!initialised_) {
      return absl::InternalError("zlib cannot be initialised");
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(window.in));  // zlib only reads it.
    stream_.avail_in = static_cast<uInt>(window.in_left);
    stream_.next_out = reinterpret_cast<Bytef*>(window.out);
    stream_.avail_out = static_cast<uInt>(window.out_left);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    window = {reinterpret_cast<const char*>(stream_.next_in), stream_.avail_in,
              reinterpret_cast<char*>(stream_.next_out), stream_.avail_out};
    if (code == Z_STREAM_END) {
      // Several streams back to back are one file, as gzip itself reads them.
      inflateReset(&stream_);
      return true;
    }
    return code == Z_OK || code == Z_BUF_ERROR ? absl::StatusOr<bool>(false) : Damaged();
  }

 private:
  z_stream stream_;
  bool initialised_ = false;
};

class ZstdDecoder : public Decoder {
 public:
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }
  const char* format() const override { return "zstd"; }

  absl::StatusOr<bool> Decode(Window& window) override {
    ZSTD_inBuffer in = {window.in, window.in_left, 0};
    ZSTD_outBuffer out = {window.out, window.out_left, 0};
    const size_t more = ZSTD_decompressStream(stream_, &out, &in);
    window = {window.in + in.pos, window.in_left - in.pos, window.out + out.pos, window.out_left - out.pos};
    // 0 left means a frame has ended; another one may follow.
    return ZSTD_isError(more) != 0 ? Damaged() : absl::StatusOr<bool>(more == 0);
  }

 private:
  ZSTD_DStream* stream_ = ZSTD_createDStream();
};

class XzDecoder : public Decoder {
 public:
  ~XzDecoder() override { lzma_end(&stream_); }
  const char* format() const override { return "xz"; }

  absl::StatusOr<bool> Decode(Window& window) override {
    if (ended_) {
      for (; window.in_left > 0 && *window.in == '\0'; --window.in_left) {
        ++window.in;  // Padding between streams.
      }
      if (window.in_left == 0) {
        return true;
      }
      if (lzma_stream_decoder(&stream_, kXzMemoryBytes, 0) != LZMA_OK) {
        return absl::InternalError("liblzma cannot be initialised");
      }
      ended_ = false;
    }
    stream_.next_in = reinterpret_cast<const uint8_t*>(window.in);
    stream_.avail_in = window.in_left;
    stream_.next_out = reinterpret_cast<uint8_t*>(window.out);
    stream_.avail_out = window.out_left;
    const lzma_ret code = lzma_code(&stream_, LZMA_RUN);
    window = {reinterpret_cast<const char*>(stream_.next_in), stream_.avail_in,
              reinterpret_cast<char*>(stream_.next_out), stream_.avail_out};
    ended_ = code == LZMA_STREAM_END;
    return ended_ || code == LZMA_OK || code == LZMA_BUF_ERROR ? absl::StatusOr<bool>(ended_) : Damaged();
  }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = true;
};

class PackedSource : public ByteSource {
 public:
  PackedSource(std::unique_ptr<ByteSource> packed, std::unique_ptr<Decoder> decoder)
      : packed_(std::move(packed)), decoder_(std::move(decoder)), input_(kChunkBytes) {}

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    window_.out = out;
    window_.out_left = bytes;
    while (window_.out_left == bytes) {
      // After a full buffer, the decoder may hold more bytes than it could write.
      if (window_.in_left == 0 && !filled_) {
        SPLITVEIL_ASSIGN_OR_RETURN(window_.in_left, packed_->Read(input_.data(), input_.size()));
        window_.in = input_.data();
        if (window_.in_left == 0) {
          return may_end_
                     ? absl::StatusOr<size_t>(0)
                     : absl::InvalidArgumentError(absl::StrCat("the ", decoder_->format(), " stream is cut short"));
        }
      }
      const size_t in_before = window_.in_left;
      SPLITVEIL_ASSIGN_OR_RETURN(const bool may_end, decoder_->Decode(window_));
      const bool moved = window_.in_left < in_before || window_.out_left < bytes;
      if (!moved && in_before > 0) {
        return absl::InternalError("a decoder stands still");  // Never: it would for ever.
      }
      may_end_ = moved ? may_end : may_end_;
      filled_ = window_.out_left == 0;
    }
    return bytes - window_.out_left;
  }

 private:
  std::unique_ptr<ByteSource> packed_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<char> input_;
  Window window_;
  bool filled_ = false, may_end_ = false;
};

// Files that are no text but hold tables, by their first bytes, and what makes text of them.
struct Foreign {
  absl::string_view magic;
  const char* message;
};
constexpr char kColumnar[] =
    "; convert it to CSV first, such as with `python3 -c \"import pandas; pandas.read_parquet('table.parquet')"
    ".to_csv('table.csv', index=False)\"` (read_feather for Arrow files)";
constexpr Foreign kForeign[] = {
    {"PAR1", "expected text, found a Parquet file"},
    {"ARROW1", "expected text, found an Arrow file"},
    {"FEA1", "expected text, found an Arrow (Feather) file"},
    {"\xff\xff\xff\xff", "expected text, found what looks like an Arrow stream"},
    {"PK\x03\x04",
     "expected text, found a zip archive; unpack it first, or save the sheet as CSV (UTF-8) if it is a workbook "
     "(xlsx)"},
    {"\xd0\xcf\x11\xe0", "expected text, found an Excel workbook (xls); save the sheet as CSV (UTF-8) first"},
    {"BZh", "expected text, found a bzip2 file; unpack it with bunzip2 first, or pack it as .gz, .zst or .xz"},
    {"%PDF", "expected text, found a PDF; export the table as CSV first"},
};
constexpr size_t kMagicBytes = 4096;
constexpr size_t kColumnarKinds = 4;

bool IsTextByte(char byte) { return !absl::ascii_iscntrl(byte) || absl::ascii_isspace(byte); }

absl::Status RefuseForeign(absl::string_view start) {
  for (size_t kind = 0; kind < std::size(kForeign); ++kind) {
    const Foreign& foreign = kForeign[kind];
    // A header line may begin with such letters, but it has no control character.
    if (!absl::StartsWith(start, foreign.magic) || std::all_of(start.begin(), start.end(), IsTextByte)) {
      continue;
    }
    // A workbook is a zip archive: its first entries tell which of the two advices helps.
    const bool is_sheet = absl::StrContains(start, "[Content_Types].xml") || absl::StrContains(start, "xl/");
    return absl::InvalidArgumentError(
        foreign.magic == "PK\x03\x04" && is_sheet
            ? "expected text, found an Excel workbook (xlsx); save the sheet as CSV (UTF-8) first"
            : absl::StrCat(foreign.message, kind < kColumnarKinds ? kColumnar : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<PlainSource> plain,
                                                     ByteSource::Contents contents) {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view start, plain->Peek(kMagicBytes));
  std::unique_ptr<Decoder> decoder;
  if (absl::StartsWith(start, "\x1f\x8b")) {
    decoder = std::make_unique<GzipDecoder>();
  } else if (absl::StartsWith(start, "\x28\xb5\x2f\xfd")) {
    decoder = std::make_unique<ZstdDecoder>();
  } else if (absl::StartsWith(start, absl::string_view("\xfd"
                                                       "7zXZ\0",
                                                       6))) {
    decoder = std::make_unique<XzDecoder>();
  } else {
    SPLITVEIL_RETURN_IF_ERROR(contents == ByteSource::Contents::kText ? RefuseForeign(start) : absl::OkStatus());
    return plain;
  }
  return std::make_unique<PackedSource>(std::move(plain), std::move(decoder));
}

// A copy of a pipe, in a file without a name that ends with this process: a table is read several times.
absl::StatusOr<int> Copy(int pipe) {
  if (isatty(pipe) == 1) {
    return absl::InvalidArgumentError("expected a table on standard input, found a terminal");
  }
  const char* const given = std::getenv("TMPDIR");
  const std::string folder = given == nullptr ? "/tmp" : given;
  std::string name = absl::StrCat(folder, "/splitveil_XXXXXX");
  const int copy = mkostemp(&name[0], O_CLOEXEC);
  if (copy >= 0) {
    // At once, so that it goes with this process however that ends: it may hold the whole table.
    unlink(name.c_str());
  }
  std::vector<char> chunk(kChunkBytes);
  while (copy >= 0) {
    const ssize_t count = read(pipe, chunk.data(), chunk.size());
    if (count == 0) {
      return copy;
    }
    if (count < 0 ? errno != EINTR : write(copy, chunk.data(), static_cast<size_t>(count)) != count) {
      break;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("standard input or a pipe cannot be copied to ", folder,
                                                 " (TMPDIR names another folder): ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::Open(const std::string& path, Contents contents) {
  std::string file_path = path;
  std::error_code ignored;
  if (path == kStandardInput || std::filesystem::is_fifo(path, ignored)) {
    static auto* const copies = new std::map<std::string, int>();  // Each pipe is copied once in a process.
    // A table is read twice, to fit and to encode, and a pipe can be read once.
    if (copies->find(path) == copies->end()) {
      const int pipe = path == kStandardInput ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
      SPLITVEIL_ASSIGN_OR_RETURN((*copies)[path], Copy(pipe));
    }
    file_path = absl::StrCat("/proc/self/fd/", copies->at(path));  // Opened again, it is read from its start.
  }
  std::FILE* file = std::fopen(file_path.c_str(), "rbe");
  if (file == nullptr) {
    const int error = errno;
    const std::string message = absl::StrCat("cannot be opened: ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  // Reads are large already: a second buffer would only copy.
  std::setvbuf(file, nullptr, _IONBF, 0);
  return Unpacked(std::make_unique<PlainSource>(file), contents);
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::FromBytes(std::string bytes, Contents contents) {
  return Unpacked(std::make_unique<PlainSource>(std::move(bytes)), contents);
}

}  // namespace splitveil
