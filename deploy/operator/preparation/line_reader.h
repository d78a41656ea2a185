// Lines of a text file, plain or packed, and the cells of a line with separators and quotes.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_LINE_READER_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_LINE_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/byte_source.h"

namespace splitveil {

// Reads a file line by line in constant memory:
//
//   while (true) {
//     absl::StatusOr<bool> more = reader->Next(&line);
//     if (!more.ok()) return more.status();
//     if (!*more) break;
//     ...
//   }
//
// Lines end with LF or CR LF; the last may lack its end. A line is any bytes: nothing is decoded, but a byte order mark
// of UTF-8 in front of the first is left out, and one of UTF-16 refused, as is a text whose lines end in CR alone. Not
// thread-safe.
class LineReader {
 public:
  static constexpr int64_t kDefaultMaxLineBytes = int64_t{1} << 20;

  // `max_line_bytes`: the longest line accepted, its end excluded; at least 1. Costs that much memory.
  // NotFound if there is no such file; InvalidArgument if it cannot be opened or read.
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path,
                                                          int64_t max_line_bytes = kDefaultMaxLineBytes);
  // The same over bytes in memory, which are copied. `name` stands for the path in messages.
  static absl::StatusOr<std::unique_ptr<LineReader>> FromBytes(std::string name, std::string bytes,
                                                               int64_t max_line_bytes = kDefaultMaxLineBytes);

  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its end; valid until the next call. False at the end of the text. InvalidArgument, with file
  // and line, where a line is too long, the text is UTF-16 or its lines end in CR alone, a packed stream is damaged or
  // cut short, or the file cannot be read; every later call then repeats the error.
  absl::StatusOr<bool> Next(absl::string_view* line);

  // Number of the latest line, from 1; 0 before the first.
  int64_t line_number() const { return line_number_; }
  const std::string& name() const { return name_; }

  // InvalidArgument "NAME:LINE:COLUMN: message" about the latest line. `column` counts cells from 1.
  absl::Status ErrorAt(int64_t column, absl::string_view message) const;
  // That a line of text, the latest, has no zero byte, of which UTF-16 is full: InvalidArgument that says how to
  // convert it.
  absl::Status CheckNoZeroByte(absl::string_view line) const;

 private:
  LineReader(std::string name, int64_t max_line_bytes, std::unique_ptr<ByteSource> source);
  static absl::StatusOr<std::unique_ptr<LineReader>> Create(std::string name, int64_t max_line_bytes,
                                                            absl::StatusOr<std::unique_ptr<ByteSource>> source);
  absl::StatusOr<bool> ReadLine(absl::string_view* line);
  // That `rest`, in which no LF is found, is a line and not a whole text of lines that end in CR alone, as spreadsheets
  // on old Macs write them.
  absl::Status CheckLineEnds(absl::string_view rest) const;
  // Moves the unread bytes to the front of the buffer and reads more behind them.
  absl::Status Refill();

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  int64_t max_line_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // The unread bytes are [begin_, end_) of buffer_.
  size_t end_ = 0;
  bool source_ended_ = false;
  int64_t line_number_ = 0;
  absl::Status failure_;
};

// As RFC 4180 has it, for any separator; a quoted cell ends on its own line. Cells are any bytes. Not thread-safe.
class CellSplitter {
 public:
  // `quotes`: a cell that begins with " reaches to the closing one, and "" in it stands for ". `trim`: drops the blanks
  // around every cell, outside its quotes.
  CellSplitter(char separator, bool quotes, bool trim) : separator_(separator), quotes_(quotes), trim_(trim) {}

  // Replaces `cells` by the cells of `line`, at least one; they borrow its bytes or this object's, until the next call.
  // False if a quoted cell does not end on the line or something follows its closing quote: `cells` are those
  // before.
  bool Split(absl::string_view line, std::vector<absl::string_view>& cells);

  // Whether all of the line's cells are empty or blanks: it holds no row.
  bool IsBlank(absl::string_view line);

 private:
  // Takes a cell off `line` that starts behind an opening quote.
  bool TakeQuoted(absl::string_view& line, absl::string_view& cell);

  char separator_;
  bool quotes_, trim_;
  std::vector<absl::string_view> blank_cells_;
  std::string unquoted_;  // Cells with doubled quotes, back to back.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_LINE_READER_H_
