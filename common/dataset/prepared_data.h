// A party's prepared data, made for the run it is about to take part in.
#ifndef SPLITVEIL_COMMON_DATASET_PREPARED_DATA_H_
#define SPLITVEIL_COMMON_DATASET_PREPARED_DATA_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/dataset/dataset.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// InvalidArgument, with both values, where the data were prepared for another train/test split than the agreement's:
// their vocabularies and scales would have seen its test examples.
absl::Status CheckSplit(const Dataset& data, const v1::RunAgreement& agreement);

// InvalidArgument, with both lists, where the ids were given other forms than the agreement's: they would match none of
// the peer's, or a few by chance.
absl::Status CheckIdForms(const Dataset& data, const v1::RunAgreement& agreement);

// Whose data they must be: the label party's have labels, the other's have none.
enum class PreparedFor { kLabelParty, kNonLabelParty };

// Opens the data that `party` names. Errors: as Dataset::Open and CheckSplit; InvalidArgument for the other party's
// data, and for ids in other forms than the agreed ones.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenPreparedData(const v1::PartyCommon& party,
                                                                const v1::RunAgreement& agreement, PreparedFor owner,
                                                                Dataset::Check check = Dataset::Check::kWhole);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_PREPARED_DATA_H_
