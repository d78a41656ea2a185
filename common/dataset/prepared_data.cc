#include "common/dataset/prepared_data.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/config/agreement.h"
#include "common/config/id_pattern.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// An agreement that holds nothing out (mode PREDICT) needs no labels either.
bool IsSplit(const v1::RunAgreement& agreement) { return agreement.has_test_fraction(); }

absl::Status CheckOwner(const Dataset& data, const v1::RunAgreement& agreement, PreparedFor owner) {
  const bool labels_expected = owner == PreparedFor::kLabelParty;
  if (data.has_labels() == labels_expected || (labels_expected && !IsSplit(agreement))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      data.path(),
      labels_expected
          ? ": has no labels, so it is not the label party's data: set party.dataset.path to this party's own"
          : ": has labels, so it is not the non-label party's data: set party.dataset.path to this party's own"));
}

// By group or time: what the data were split by is what is agreed.
absl::Status CheckSplitByTables(const Dataset& data, const v1::RunAgreement& agreement) {
  const v1::Preprocessing& prepared = data.preprocessing();
  // A part that was drawn by group or time is in the file; otherwise both parties compute it from the ids.
  if (prepared.split_by_group() != agreement.split_by_group()) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.path(), ": split_by_group: ",
        agreement.split_by_group() ? "the run agreement splits by group, but the table that these data were prepared "
                                     "from has no column of kind GROUP: mark one in its schema and prepare it again"
                                   : "the table that these data were prepared from has a column of kind GROUP, but the "
                                     "run agreement does not split by group: set split_by_group in it"));
  }
  if (prepared.test_after() != agreement.test_after()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path(), ": test_after: expected data prepared for \"",
                                                   agreement.test_after(), "\" as in the run agreement, found \"",
                                                   prepared.test_after(), "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIdForms(const Dataset& data, const v1::RunAgreement& agreement) {
  if (!agreement.alignment().key_column().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.path(),
        ": alignment.key_column: it is for keys of several columns (`splitveil align --key`), and prepared data have ",
        "one column of ids: set alignment.id_form instead"));
  }
  const auto names = [](const google::protobuf::RepeatedField<int>& forms) {
    std::set<std::string> sorted;
    for (const int form : forms) {
      sorted.insert(v1::IdForm_Name(static_cast<v1::IdForm>(form)));
    }
    return sorted.empty() ? "none" : absl::StrJoin(sorted, ", ");
  };
  const std::string agreed = names(agreement.alignment().id_form()), prepared = names(data.preprocessing().id_form());
  return prepared == agreed ? absl::OkStatus()
                            : absl::InvalidArgumentError(absl::StrCat(
                                  data.path(), ": alignment.id_form: expected ids in the forms of the run agreement (",
                                  agreed, "), found data prepared with ", prepared,
                                  "; set id_form of the ID column in the schema and prepare the table again"));
}

absl::Status CheckIdPattern(const Dataset& data, const v1::RunAgreement& agreement) {
  const auto& patterns = agreement.alignment().id_pattern();
  if (patterns.empty()) {
    return absl::OkStatus();
  }
  if (patterns.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.path(), ": alignment.id_pattern: expected one, as prepared data have one column of ids, found ",
        patterns.size(), ": those of a key of several columns are for `splitveil align --key`"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(IdPattern pattern, IdPattern::Create(patterns[0]));
  for (size_t row = 0; row < data.ids().size(); ++row) {
    pattern.Add(data.ids()[row], static_cast<int64_t>(row) + 1);
  }
  return pattern.Check(data.path(), "row");
}

absl::Status CheckSplit(const Dataset& data, const v1::RunAgreement& agreement) {
  const v1::Preprocessing& prepared = data.preprocessing();
  SPLITVEIL_RETURN_IF_ERROR(CheckSplitByTables(data, agreement));
  if (agreement.test_after().empty() && prepared.test_fraction() != agreement.test_fraction()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path(), ": test_fraction: expected data prepared for ",
                                                   agreement.test_fraction(), " as in the run agreement, found ",
                                                   prepared.test_fraction()));
  }
  // Scaling and vocabularies were learnt from the training part alone: a different split would leak test rows into
  // them.
  if (prepared.split_salt() != agreement.split_salt()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path(), ": split_salt: expected data prepared for \"",
                                                   agreement.split_salt(), "\" as in the run agreement, found \"",
                                                   prepared.split_salt(), "\""));
  }
  const double auxiliary_fraction = agreement.attribute_audit().auxiliary_fraction();
  if (prepared.auxiliary_fraction() != auxiliary_fraction) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path(), ": auxiliary_fraction: expected data prepared for ", auxiliary_fraction,
                     " as in the run agreement's attribute_audit, found ", prepared.auxiliary_fraction()));
  }
  if (prepared.validation_fraction() != agreement.validation_fraction()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path(), ": validation_fraction: expected data prepared for ",
                                                   agreement.validation_fraction(), " as in the run agreement, found ",
                                                   prepared.validation_fraction()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenPreparedData(const v1::PartyCommon& party,
                                                                const v1::RunAgreement& agreement, PreparedFor owner,
                                                                Dataset::Check check) {
  absl::StatusOr<std::shared_ptr<const Dataset>> data =
      Dataset::Open(party.dataset().path(), Dataset::kMaxResidentBytes, check);
  if (!data.ok()) {
    return data;
  }
  // The most common mix-up first: the file of the other party.
  absl::Status fits = CheckOwner(**data, agreement, owner);
  fits.Update(CheckIdForms(**data, agreement));
  if (fits.ok()) {  // Reads every id.
    fits = CheckIdPattern(**data, agreement);
  }
  if (IsSplit(agreement)) {
    fits.Update(CheckSplit(**data, agreement));
  }
  return fits.ok() ? data : fits;
}

}  // namespace splitveil
