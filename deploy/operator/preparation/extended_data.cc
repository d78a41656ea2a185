#include "deploy/operator/preparation/extended_data.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace splitveil {

absl::Status DoesNotExtend(const Dataset& old, absl::string_view how) {
  return absl::InvalidArgumentError(absl::StrCat(old.path(), ": ", how));
}

absl::Status CheckSameTask(const std::optional<TableColumns::Label>& label, const v1::Preprocessing& own,
                           const Dataset& old) {
  const v1::Preprocessing& theirs = old.preprocessing();
  if (label.has_value() != old.has_labels() || (label.has_value() && label->task.kind != old.task().kind)) {
    return DoesNotExtend(
        old,
        "expected data of the same kind of label (LABEL, CLASS_LABEL, TARGET, none) to extend, found a "
        "different kind");
  }
  // Their order is what a label's number means: another order would exchange labels without an error.
  if (!absl::c_equal(theirs.classes(), own.classes())) {
    return DoesNotExtend(old,
                         "the classes differ from those of the data to extend: use the same ones in the same order");
  }
  if (theirs.target().minimum() != own.target().minimum() || theirs.target().maximum() != own.target().maximum()) {
    return DoesNotExtend(old, absl::StrCat("target_minimum, target_maximum: expected ", theirs.target().minimum(),
                                           " and ", theirs.target().maximum(), " as in the data to extend, found ",
                                           own.target().minimum(), " and ", own.target().maximum()));
  }
  return absl::OkStatus();
}

absl::Status CheckSameColumns(const v1::Preprocessing& own, const Dataset& old) {
  const v1::Preprocessing& theirs = old.preprocessing();
  const auto same_attribute = [](const v1::AttributeValues& a, const v1::AttributeValues& b) {
    return a.name() == b.name() && absl::c_equal(a.values(), b.values());
  };
  // As with classes: an attack that knows values by number would guess others.
  if (!absl::c_equal(own.attributes(), theirs.attributes(), same_attribute)) {
    return DoesNotExtend(old,
                         "the attributes or their values differ from those of the data to extend: use the same ones "
                         "in the same order");
  }
  const auto same_name = [](const auto& a, const auto& b) { return a.name() == b.name(); };
  if (!absl::c_equal(theirs.categorical(), own.categorical(), same_name) ||
      theirs.image().SerializeAsString() != own.image().SerializeAsString()) {
    return DoesNotExtend(old, "columns or image size differ from those of the data to extend");
  }
  // Another number of buckets would give nearly every value another row.
  const auto same_buckets = [](const auto& a, const auto& b) { return a.hash_buckets() == b.hash_buckets(); };
  return absl::c_equal(theirs.categorical(), own.categorical(), same_buckets)
             ? absl::OkStatus()
             : DoesNotExtend(old, "hash_buckets differs from that of the data to extend");
}

}  // namespace splitveil
