#include "common/dataset/prepared_data.h"

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"

namespace splitveil {
namespace {

absl::Status CheckOwner(const Dataset& data, const v1::RunAgreement& agreement, PreparedFor owner) {
  const bool labels_expected = owner == PreparedFor::kLabelParty;
  if (data.has_labels() == labels_expected || (labels_expected && OnlyPredicts(agreement))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(data.path(), labels_expected ? ": expected the label party's data, with labels, found data without"
                                                : ": expected the non-label party's data, found data with labels"));
}

}  // namespace

absl::Status CheckSplit(const Dataset& data, const v1::RunAgreement& agreement) {
  const v1::Preprocessing& prepared = data.preprocessing();
  if (prepared.test_fraction() != agreement.test_fraction()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path(), ": test_fraction: expected data prepared for ",
                                                   agreement.test_fraction(), " as in the run agreement, found ",
                                                   prepared.test_fraction()));
  }
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
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenPreparedData(const v1::PartyCommon& party,
                                                                const std::string& config_path,
                                                                const v1::RunAgreement& agreement, PreparedFor owner) {
  absl::StatusOr<std::shared_ptr<const Dataset>> data = Dataset::Open(ResolvePath(config_path, party.dataset().path()));
  if (!data.ok()) {
    return data;
  }
  absl::Status fits = CheckOwner(**data, agreement, owner);
  if (!OnlyPredicts(agreement)) {  // Nothing is fitted, all is predicted.
    fits.Update(CheckSplit(**data, agreement));
  }
  return fits.ok() ? data : fits;
}

}  // namespace splitveil
