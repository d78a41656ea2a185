#include "deploy/operator/preparation/column_holders.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

absl::Status NoHolder(absl::string_view feature) {
  return absl::InvalidArgumentError(
      absl::StrCat("table schema: ", feature,
                   ": expected a holder, as the table is split between the parties, found "
                   "none; a table of one party alone takes --party"));
}

absl::Status CheckHolders(const TableColumns& columns) {
  for (const auto* features : {&columns.numeric, &columns.categorical}) {
    for (const TableColumns::Feature& feature : *features) {
      if (feature.holder == Schema::HOLDER_UNSPECIFIED) {
        return NoHolder(absl::StrCat("columns: ", feature.name));
      }
    }
  }
  if (columns.image.channels > 0 && columns.image_holder == Schema::HOLDER_UNSPECIFIED) {
    return NoHolder("images");
  }
  return absl::OkStatus();
}

// Of a table that is split, to the non-label party.
absl::Status GiveAttributes(TableColumns& columns) {
  for (TableColumns::Attribute& attribute : columns.attributes) {
    if (attribute.holder != Schema::HOLDER_UNSPECIFIED && attribute.holder != Schema::NONLABEL_PARTY) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table schema: columns: ", attribute.name,
          ": holder: expected NONLABEL_PARTY or none, as an ATTRIBUTE of a table that is split is the non-label "
          "party's, found ",
          Schema::Holder_Name(attribute.holder)));
    }
    // The attacks on attributes are the label party's, so the other one holds them.
    attribute.holder = Schema::NONLABEL_PARTY;
    for (TableColumns::Feature& feature : columns.categorical) {
      if (feature.name == attribute.name) {
        feature.holder = Schema::NONLABEL_PARTY;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SettleHolders(Schema::Holder parties, bool only_applies, TableColumns& columns) {
  const bool is_split = parties == Schema::BOTH;
  SPLITVEIL_RETURN_IF_ERROR(is_split ? GiveAttributes(columns) : absl::OkStatus());
  const bool label_expected = parties != Schema::NONLABEL_PARTY;
  // A label party's later rows may still have no outcomes: to predict them is what they are for.
  if (columns.label.has_value() != label_expected && !(only_applies && label_expected)) {
    return absl::InvalidArgumentError(absl::StrCat("table schema: columns: expected ", label_expected ? "one" : "no",
                                                   " LABEL, CLASS_LABEL or TARGET, found ",
                                                   columns.label.has_value() ? "one" : "none"));
  }
  // The halves of one table can be matched by row numbers, two tables by their ids alone.
  if (!is_split && !columns.has_id) {
    return absl::InvalidArgumentError("table schema: columns: expected an ID in a party's own table, found none");
  }
  return is_split ? CheckHolders(columns) : absl::OkStatus();
}

}  // namespace splitveil
