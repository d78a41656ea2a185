#include "deploy/operator/preparation/line_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;

// What spreadsheets put in front of a text.
constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr absl::string_view kUtf16Marks[] = {"\xff\xfe", "\xfe\xff"};

}  // namespace

LineReader::LineReader(std::string name, int64_t max_line_bytes, std::unique_ptr<ByteSource> source)
    : name_(std::move(name)),
      source_(std::move(source)),
      max_line_bytes_(max_line_bytes),
      buffer_(static_cast<size_t>(max_line_bytes) + 2) {}  // Room for CR LF.

LineReader::~LineReader() = default;

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path, int64_t max_line_bytes) {
  return Create(path == kStandardInput ? "standard input" : path, max_line_bytes, ByteSource::Open(path));
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::FromBytes(std::string name, std::string bytes,
                                                                  int64_t max_line_bytes) {
  return Create(std::move(name), max_line_bytes, ByteSource::FromBytes(std::move(bytes)));
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Create(std::string name, int64_t max_line_bytes,
                                                               absl::StatusOr<std::unique_ptr<ByteSource>> source) {
  if (max_line_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_line_bytes: expected at least 1, found ", max_line_bytes));
  }
  SPLITVEIL_RETURN_IF_ERROR(Within(name, source.status()));
  return std::unique_ptr<LineReader>(new LineReader(std::move(name), max_line_bytes, *std::move(source)));
}

absl::StatusOr<bool> LineReader::Next(absl::string_view* line) {
  if (!failure_.ok()) {
    return failure_;
  }
  absl::StatusOr<bool> more = ReadLine(line);
  if (more.ok() && *more && line_number_ == 0) {
    absl::ConsumePrefix(line, kUtf8Mark);
    if (absl::StartsWith(*line, kUtf16Marks[0]) || absl::StartsWith(*line, kUtf16Marks[1])) {
      more = absl::InvalidArgumentError(
          "expected text in UTF-8, found the byte order mark of UTF-16; `iconv -f UTF-16 -t UTF-8` converts it");
    }
  }
  if (!more.ok()) {
    return failure_ = Within(absl::StrCat(name_, ":", line_number_ + 1), more.status());
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
    if (line_end == nullptr && (source_ended_ || unread == buffer_.size())) {
      SPLITVEIL_RETURN_IF_ERROR(CheckLineEnds(absl::string_view(start, unread)));
    }
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
    SPLITVEIL_RETURN_IF_ERROR(Refill());
  }
}

absl::Status LineReader::CheckLineEnds(absl::string_view rest) const {
  const size_t carriage_return = rest.find('\r');
  return line_number_ == 0 && carriage_return != absl::string_view::npos && carriage_return + 1 < rest.size()
             ? absl::InvalidArgumentError(
                   "expected lines that end in LF or CR LF, found ones that end in CR alone; `tr '\\r' '\\n'` converts "
                   "it")
             : absl::OkStatus();
}

absl::Status LineReader::Refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  SPLITVEIL_ASSIGN_OR_RETURN(size_t count,
                             source_->Read(buffer_.data() + end_, std::min(buffer_.size() - end_, kChunkBytes)));
  source_ended_ = count == 0;
  end_ += count;
  return absl::OkStatus();
}

absl::Status LineReader::CheckNoZeroByte(absl::string_view line) const {
  return absl::StrContains(line, '\0')
             ? ErrorAt(1,
                       "expected text in UTF-8, found a zero byte, of which UTF-16 is full; `iconv -f UTF-16LE -t "
                       "UTF-8` (or UTF-16BE) converts it")
             : absl::OkStatus();
}

absl::Status LineReader::ErrorAt(int64_t column, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_number_, ":", column, ": ", message));
}

namespace {

// Blanks that `trim` drops; never the separator, so that empty cells between tabs stay.
absl::string_view StripBlanks(absl::string_view text, char separator) {
  const auto is_blank = [&](char byte) { return (byte == ' ' || byte == '\t') && byte != separator; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

bool CellSplitter::TakeQuoted(absl::string_view& line, absl::string_view& cell) {
  const size_t begin = unquoted_.size();
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '"') {
      unquoted_.push_back(line[i]);
    } else if (i + 1 < line.size() && line[i + 1] == '"') {
      unquoted_.push_back('"');
      ++i;
    } else {
      cell = absl::string_view(unquoted_).substr(begin);
      line.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool CellSplitter::Split(absl::string_view line, std::vector<absl::string_view>& cells) {
  cells.clear();
  unquoted_.clear();
  unquoted_.reserve(line.size());  // Never grows below, so that cells stay where they are.
  while (true) {
    const absl::string_view start = trim_ ? StripBlanks(line, separator_) : line;
    if (quotes_ && !start.empty() && start.front() == '"') {
      absl::string_view cell;
      line = start.substr(1);
      if (!TakeQuoted(line, cell)) {
        return false;
      }
      const size_t end = line.find(separator_);
      const absl::string_view rest = line.substr(0, end);
      if (!(trim_ ? StripBlanks(rest, separator_) : rest).empty()) {
        return false;
      }
      cells.push_back(cell);
      if (end == absl::string_view::npos) {
        return true;
      }
      line.remove_prefix(end + 1);
      continue;
    }
    const size_t end = line.find(separator_);
    const absl::string_view cell = line.substr(0, end);
    cells.push_back(trim_ ? StripBlanks(cell, separator_) : cell);
    if (end == absl::string_view::npos) {
      return true;
    }
    line.remove_prefix(end + 1);
  }
}

bool CellSplitter::IsBlank(absl::string_view line) {
  const auto may_be_blank = [this](char byte) {
    return byte == separator_ || byte == ' ' || byte == '\t' || (quotes_ && byte == '"');
  };
  return std::all_of(line.begin(), line.end(), may_be_blank) && Split(line, blank_cells_) &&
         std::all_of(blank_cells_.begin(), blank_cells_.end(),
                     [this](absl::string_view cell) { return StripBlanks(cell, separator_).empty(); });
}

}  // namespace splitveil
