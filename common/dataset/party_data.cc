#include "common/dataset/party_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/dataset/line_reader.h"
#include "common/dataset/tsv.h"

namespace splitveil {
namespace {

constexpr absl::string_view kNumericPrefix = "numeric:";
constexpr absl::string_view kCategoricalPrefix = "categorical:";
constexpr size_t kMaxReportedLines = 10;
constexpr int64_t kFirstRowLine = 2;

// Codes of a column's distinct strings. The set holds codes and looks into `values`, so each string is stored once.
class Interner {
 public:
  explicit Interner(std::vector<std::string>* values) : values_(values), codes_(0, Hash{values}, Equal{values}) {}

  // -1 when the codes are used up.
  int32_t Code(absl::string_view value) {
    const auto found = codes_.find(value);
    if (found != codes_.end()) {
      return *found;
    }
    if (values_->size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return -1;
    }
    const auto code = static_cast<int32_t>(values_->size());
    values_->emplace_back(value);
    codes_.insert(code);
    return code;
  }

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the name hash tables look for.
    size_t operator()(absl::string_view value) const { return absl::HashOf(value); }
    size_t operator()(int32_t code) const { return (*this)(absl::string_view((*values)[code])); }
    const std::vector<std::string>* values;
  };
  struct Equal {
    using is_transparent = void;  // NOLINT(readability-identifier-naming)
    bool operator()(int32_t a, int32_t b) const { return a == b; }
    bool operator()(int32_t a, absl::string_view b) const { return (*values)[a] == b; }
    bool operator()(absl::string_view a, int32_t b) const { return (*this)(b, a); }
    const std::vector<std::string>* values;
  };

  std::vector<std::string>* values_;  // Not owned; must outlive this.
  absl::flat_hash_set<int32_t, Hash, Equal> codes_;
};

// What a column of the file is, and which of PartyData's columns of its kind it fills.
struct ColumnRole {
  enum class Kind { kId, kLabel, kNumeric, kCategorical };
  Kind kind;
  size_t index = 0;
};

// Reads one file. Keeps rows with a bad id until the end, so that row r stays line r + 2 and all of them are reported.
class Parser {
 public:
  explicit Parser(LineReader* lines) : lines_(lines) {}

  absl::StatusOr<PartyData> Parse() {
    absl::string_view line;
    absl::StatusOr<bool> more = lines_->Next(&line);
    if (more.ok() && !*more) {
      return absl::InvalidArgumentError(absl::StrCat(lines_->name(), ": expected a header line, found an empty file"));
    }
    absl::Status status = more.ok() ? ParseHeader(line) : more.status();
    while (status.ok()) {
      more = lines_->Next(&line);
      if (!more.ok() || !*more) {
        status = more.status();
        break;
      }
      status = ParseRow(line);
    }
    if (status.ok()) {
      status = CheckIds();
    }
    if (!status.ok()) {
      return status;
    }
    return std::move(data_);
  }

 private:
  // Messages about the header show none of its text: a file that lacks its header has data there.
  absl::Status ParseHeader(absl::string_view line) {
    SplitTabs(line, &cells_);
    absl::flat_hash_set<absl::string_view> names;
    for (size_t i = 0; i < cells_.size(); ++i) {
      const absl::string_view cell = cells_[i];
      const auto column = static_cast<int64_t>(i) + 1;
      if (i == 0) {
        if (cell != "id") {
          return lines_->ErrorAt(column, "expected a header line that starts with `id`");
        }
        roles_.push_back({ColumnRole::Kind::kId});
      } else if (i == 1 && cell == "label") {
        roles_.push_back({ColumnRole::Kind::kLabel});
      } else if (absl::StartsWith(cell, kNumericPrefix) && cell.size() > kNumericPrefix.size()) {
        roles_.push_back({ColumnRole::Kind::kNumeric, data_.numeric.size()});
        data_.numeric.push_back({std::string(cell.substr(kNumericPrefix.size())), {}});
      } else if (absl::StartsWith(cell, kCategoricalPrefix) && cell.size() > kCategoricalPrefix.size()) {
        roles_.push_back({ColumnRole::Kind::kCategorical, data_.categorical.size()});
        data_.categorical.push_back({std::string(cell.substr(kCategoricalPrefix.size())), {}, {}});
      } else {
        return lines_->ErrorAt(column, absl::StrCat("expected ", i == 1 ? "`label`, " : "",
                                                    "`numeric:NAME` or `categorical:NAME` in the header line"));
      }
      if (!names.insert(cell).second) {
        return lines_->ErrorAt(column, "the header line names a column twice");
      }
    }
    interners_.reserve(data_.categorical.size());
    for (CategoricalColumn& column : data_.categorical) {
      interners_.emplace_back(&column.values);
    }
    return absl::OkStatus();
  }

  absl::Status ParseRow(absl::string_view line) {
    SplitTabs(line, &cells_);
    if (cells_.size() != roles_.size()) {
      return lines_->ErrorAt(static_cast<int64_t>(std::min(cells_.size(), roles_.size() + 1)),
                             absl::StrCat("expected ", roles_.size(), " columns, found ", cells_.size()));
    }
    for (size_t i = 0; i < cells_.size(); ++i) {
      absl::Status status = ParseCell(roles_[i], static_cast<int64_t>(i) + 1, cells_[i]);
      if (!status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseCell(ColumnRole role, int64_t column, absl::string_view cell) {
    switch (role.kind) {
      case ColumnRole::Kind::kId:
        data_.ids.emplace_back(absl::StripAsciiWhitespace(cell));
        return absl::OkStatus();
      case ColumnRole::Kind::kLabel:
        if (cell != "0" && cell != "1") {
          return lines_->ErrorAt(column, "label: expected 0 or 1");
        }
        data_.labels.push_back(cell == "1" ? 1 : 0);
        return absl::OkStatus();
      case ColumnRole::Kind::kNumeric: {
        NumericColumn& numeric = data_.numeric[role.index];
        float value = std::numeric_limits<float>::quiet_NaN();
        if (!cell.empty() && !ParseFinite(cell, &value)) {
          return lines_->ErrorAt(column, absl::StrCat("numeric:", absl::CHexEscape(numeric.name),
                                                      ": expected a finite number or nothing"));
        }
        numeric.values.push_back(value);
        return absl::OkStatus();
      }
      case ColumnRole::Kind::kCategorical: {
        const int32_t code = interners_[role.index].Code(cell);
        if (code < 0) {
          return lines_->ErrorAt(column, "more than 2^31 - 1 distinct values in a categorical column");
        }
        data_.categorical[role.index].codes.push_back(code);
        return absl::OkStatus();
      }
    }
    return absl::InternalError("unknown kind of column");
  }

  static bool ParseFinite(absl::string_view cell, float* value) {
    // SimpleAtof knows no locale, but takes white space, inf, nan and hexadecimal numbers.
    return cell.find_first_not_of("0123456789+-.eE") == absl::string_view::npos && absl::SimpleAtof(cell, value) &&
           std::isfinite(*value);
  }

  absl::Status CheckIds() const {
    std::vector<int64_t> empty;
    std::vector<int64_t> repeated;
    absl::flat_hash_set<absl::string_view> seen;
    seen.reserve(data_.ids.size());
    for (size_t row = 0; row < data_.ids.size(); ++row) {
      const std::string& id = data_.ids[row];
      if (id.empty()) {
        empty.push_back(static_cast<int64_t>(row) + kFirstRowLine);
      } else if (!seen.insert(id).second) {
        repeated.push_back(static_cast<int64_t>(row) + kFirstRowLine);
      }
    }
    std::vector<std::string> complaints;
    if (!empty.empty()) {
      complaints.push_back(absl::StrCat(empty.size(), " empty (", Lines(empty), ")"));
    }
    if (!repeated.empty()) {
      complaints.push_back(absl::StrCat(repeated.size(), " repeated (", Lines(repeated), ")"));
    }
    if (complaints.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(lines_->name(), ": expected distinct ids, found ", absl::StrJoin(complaints, ", ")));
  }

  static std::string Lines(const std::vector<int64_t>& lines) {
    const size_t shown = std::min(lines.size(), kMaxReportedLines);
    return absl::StrCat(lines.size() == 1 ? "line " : "lines ",
                        absl::StrJoin(lines.begin(), lines.begin() + shown, ", "), shown < lines.size() ? ", ..." : "");
  }

  LineReader* lines_;  // Not owned; must outlive this.
  PartyData data_;
  std::vector<ColumnRole> roles_;
  std::vector<Interner> interners_;
  std::vector<absl::string_view> cells_;
};

}  // namespace

absl::StatusOr<PartyData> ParsePartyData(LineReader* lines) { return Parser(lines).Parse(); }

absl::StatusOr<PartyData> ReadPartyData(const std::string& path) {
  absl::StatusOr<std::unique_ptr<LineReader>> lines = LineReader::Open(path);
  if (!lines.ok()) {
    return lines.status();
  }
  return ParsePartyData(lines->get());
}

}  // namespace splitveil
