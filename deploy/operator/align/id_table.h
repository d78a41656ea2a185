// The ids of a table that was not prepared: a party's own file and the columns that make a key.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ID_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ID_TABLE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/id_list.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/id_form.pb.h"

namespace splitveil {

// What becomes of rows with the same key.
enum class RepeatedKeys {
  kRefuse,
  kFirst,  // The first of them stays.
  kLast,
};

// Of all cells it keeps those of the key, on the disk, so that memory does not grow with the table: in a file for its
// owner alone that loses its name as soon as it is whole, and vanishes with this or with the process. Thread-safe once
// read.
class IdTable {
 public:
  struct Options {
    // Text with a header line; cells are parted by tabs, commas or semicolons, whichever parts the header line so that
    // it names the key. Plain or packed (LineReader).
    std::string path;
    // At least one. A key of one column is its cell, as `splitveil prepare` takes it; of several, each cell with its
    // length in front, so that "1" and "23" are not "12" and "3".
    std::vector<std::string> key;
    // AlignmentAgreement.key_column, or id_form for each: one for each column of the key.
    std::vector<std::set<v1::IdForm>> forms;
    // AlignmentAgreement.id_pattern, of the cells in these forms: one for each column of the key, or none.
    std::vector<std::string> patterns = {};
    RepeatedKeys repeated = RepeatedKeys::kRefuse;
    std::string spill_path = {};  // The ids are kept beside it.
  };
  // Errors: those of LineReader and SectionFileWriter; InvalidArgument with numbers of rows and lines, never with a
  // cell, if the header lacks a column, a row a cell of the key, a form needs UTF-8, the ids do not fit their patterns,
  // are written in several ways (IdSurvey::Check) or repeat.
  static absl::StatusOr<IdTable> Read(const Options& options);

  // Borrows from this.
  IdList ids() const { return {ends_, bytes_}; }
  // Of an id, as in ids(): its row in the file, from 0 for the one below the header line. Lines without a cell hold no
  // row.
  uint32_t row_number(uint32_t id) const { return numbers_.empty() ? id : numbers_[id]; }
  // Rows that were left out because their key repeats.
  int64_t left_out() const { return left_out_; }

 private:
  class Writer;
  // All rows but those of `dropped`.
  absl::StatusOr<IdTable> Without(const std::vector<bool>& dropped, const std::string& spill_path) const;

  std::unique_ptr<SectionFile> file_;  // Holds what the others borrow.
  absl::string_view bytes_;
  absl::Span<const uint64_t> ends_;
  absl::Span<const uint32_t> numbers_;  // Empty: no row was left out.
  int64_t left_out_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ID_TABLE_H_
