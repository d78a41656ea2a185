#include "common/checkpoint/continuation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"

namespace splitveil {
namespace {

bool ReadDigest(const std::string& bytes, Digest& digest) {
  if (bytes.size() != digest.size()) {
    return false;
  }
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return true;
}

// Whether each is a row of the data, and none comes twice.
bool AreRows(const google::protobuf::RepeatedField<uint32_t>& rows, int64_t of) {
  std::vector<bool> seen(static_cast<size_t>(of), false);
  for (const uint32_t row : rows) {
    if (row >= of || seen[row]) {
      return false;
    }
    seen[row] = true;
  }
  return true;
}

}  // namespace

v1::Continuation ToProto(const Continuation& continuation, const v1::RunAgreement& agreement) {
  v1::Continuation proto;
  proto.set_agreement_sha256(std::string(AsBytes(AgreementSha256(agreement))));
  proto.set_joint_seed(std::string(AsBytes(continuation.seed)));
  proto.set_order_sha256(std::string(AsBytes(continuation.aligned.order_sha256)));
  proto.set_peer_ids(continuation.aligned.peer_ids);
  proto.set_in_flight_batches(static_cast<uint32_t>(continuation.in_flight_batches));
  proto.mutable_aligned_rows()->Add(continuation.aligned.rows.begin(), continuation.aligned.rows.end());
  return proto;
}

absl::StatusOr<std::optional<Continuation>> ContinuationOf(const Checkpoint& checkpoint,
                                                           const v1::RunAgreement& agreement, const Dataset& data) {
  const v1::CheckpointHeader& header = checkpoint.header();
  const v1::Continuation& proto = header.continuation();
  if (!header.has_continuation() || proto.agreement_sha256() != AsBytes(AgreementSha256(agreement)) ||
      header.dataset_sha256() != AsBytes(data.digest()) || agreement.progressive_validation()) {
    return std::nullopt;
  }
  Continuation continuation;
  continuation.epochs = header.epochs();
  continuation.batches = header.batches();
  continuation.in_flight_batches = proto.in_flight_batches();
  if (header.epochs() > static_cast<uint32_t>(agreement.epochs()) || continuation.in_flight_batches < 1 ||
      continuation.in_flight_batches > MostInFlight(agreement) || !ReadDigest(proto.joint_seed(), continuation.seed) ||
      !ReadDigest(proto.order_sha256(), continuation.aligned.order_sha256) ||
      !AreRows(proto.aligned_rows(), static_cast<int64_t>(data.rows()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.path(), ": continuation: expected digests and rows of the data, found something else"));
  }
  continuation.aligned.rows.assign(proto.aligned_rows().begin(), proto.aligned_rows().end());
  continuation.aligned.peer_ids = proto.peer_ids();
  return continuation;
}

}  // namespace splitveil
