#include "common/config/id_pattern.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace splitveil {

absl::Status FaultyRows::Error(const std::string& table, absl::string_view what, absl::string_view unit) const {
  return absl::InvalidArgumentError(absl::StrCat(table, ": ", rows_, rows_ == 1 ? " row " : " rows ", what, " (", unit,
                                                 " ", absl::StrJoin(places_, ", "),
                                                 rows_ > static_cast<int64_t>(places_.size()) ? ", ...)" : ")"));
}

absl::StatusOr<IdPattern> IdPattern::Create(const std::string& pattern) {
  IdPattern made;
  if (!pattern.empty()) {
    made.expression_ = std::make_unique<RE2>(pattern, RE2::Quiet);
    if (!made.expression_->ok()) {
      return absl::InvalidArgumentError(absl::StrCat("expected a regular expression as RE2 has them, found \"", pattern,
                                                     "\": ", made.expression_->error()));
    }
  }
  return made;
}

void IdPattern::Add(absl::string_view id, int64_t place) {
  if (expression_ != nullptr && !RE2::FullMatch({id.data(), id.size()}, *expression_)) {
    faulty_.Add(place);
  }
}

absl::Status IdPattern::Check(const std::string& table, absl::string_view unit) const {
  return faulty_.any() ? faulty_.Error(table,
                                       absl::StrCat("with an id that the agreed id_pattern \"", expression_->pattern(),
                                                    "\" does not describe: correct or remove them"),
                                       unit)
                       : absl::OkStatus();
}

}  // namespace splitveil
