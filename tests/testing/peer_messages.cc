#include "tests/testing/peer_messages.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>
#include <utility>

#include "common/config/agreement.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"
#include "tests/testing/alignment_channel_pair.h"

namespace splitveil::testing {

v1::OpenRequest OpenRequestOf(const v1::RunAgreement& agreement, const SeedExchange& seed) {
  v1::OpenRequest request;
  *request.mutable_agreement() = agreement;
  request.set_agreement_sha256(std::string(AsBytes(AgreementSha256(agreement))));
  request.set_seed_commitment(seed.commitment());
  request.set_nonce(std::string(32, 'n'));
  return request;
}

absl::StatusOr<AlignedIds> AlignWith(LabelSession& session, const SmallRun& run, const std::string& run_id) {
  AlignmentChannelPair pair(64);
  absl::Status verdict;
  std::thread label([&] { verdict = session.Align(*pair.second); });
  AlignmentOptions options;
  options.run_id = run_id;
  options.chunk_ids = run.agreement.alignment().chunk_ids();
  absl::StatusOr<AlignedIds> aligned = AlignIds(run.nonlabel_data.ids, options, *pair.first);
  label.join();
  SPLITVEIL_RETURN_IF_ERROR(verdict);
  return aligned;
}

v1::StartRequest StartRequestOf(const std::string& run_id, const AlignedIds& aligned, const SeedExchange& seed) {
  v1::StartRequest request;
  request.set_run_id(run_id);
  request.set_aligned_examples(aligned.rows.size());
  request.set_order_sha256(std::string(AsBytes(aligned.order_sha256)));
  request.set_seed_reveal(seed.reveal());
  return request;
}

absl::StatusOr<PeerSchedule> ScheduleOf(const SmallRun& run, const JointSeed& joint, const AlignedIds& aligned) {
  TrainTestSplit split = SplitRule(run.agreement).Split(run.nonlabel_data.ids, aligned.rows);
  const auto test = static_cast<int64_t>(split.test.size());
  const auto auxiliary = static_cast<int64_t>(split.auxiliary.size());
  SPLITVEIL_ASSIGN_OR_RETURN(Schedule schedule,
                             Schedule::Create(joint, std::move(split.train),
                                              {run.agreement.batch_size(), run.agreement.minimum_batch_size()}));
  return PeerSchedule{std::move(schedule), test, auxiliary};
}

v1::CutActivations MadeUpActivations(const SmallRun& run, int64_t rows, float scale) {
  Matrix values(rows, run.agreement.cut_width());
  for (int64_t i = 0; i < values.size(); ++i) {
    values.data()[i] = scale * static_cast<float>(std::sin(0.1 * static_cast<double>(i)));
  }
  v1::CutActivations message;
  EXPECT_TRUE(EncodeMatrix(values, v1::FLOAT32, *message.mutable_activations()).ok());
  return message;
}

v1::ScoreBatchRequest MadeUpScores(int64_t rows) {
  v1::ScoreBatchRequest request;
  for (const char* layer : {"cut", "first"}) {
    for (const v1::Attack attack : {v1::NORM, v1::COSINE}) {
      v1::ScoreBatchRequest::Scores* scores = request.add_scores();
      scores->set_layer(layer);
      scores->set_attack(attack);
      EXPECT_TRUE(EncodeMatrix(Matrix(1, rows), v1::FLOAT32, *scores->mutable_scores()).ok());
    }
  }
  return request;
}

}  // namespace splitveil::testing
