// What an honest non-label party sends in a SmallRun, message by message: a test sends it, and then something else.
#ifndef SPLITVEIL_TESTS_TESTING_PEER_MESSAGES_H_
#define SPLITVEIL_TESTS_TESTING_PEER_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/schedule/schedule.h"
#include "label_party/session/label_session.h"
#include "tests/testing/small_run.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil::testing {

v1::OpenRequest OpenRequestOf(const v1::RunAgreement& agreement, const SeedExchange& seed);

// Aligns the non-label party's ids of `run` with `session`. Errors: either side's.
absl::StatusOr<AlignedIds> AlignWith(LabelSession& session, const SmallRun& run, const std::string& run_id);

v1::StartRequest StartRequestOf(const std::string& run_id, const AlignedIds& aligned, const SeedExchange& seed);

// What follows from the joint seed once the run has started.
struct PeerSchedule {
  Schedule schedule;
  int64_t test_examples, auxiliary_examples;
};
absl::StatusOr<PeerSchedule> ScheduleOf(const SmallRun& run, const JointSeed& joint, const AlignedIds& aligned);

// Any finite numbers [rows, cut_width].
v1::CutActivations MadeUpActivations(const SmallRun& run, int64_t rows, float scale);

// Zeros for `rows` examples by each attack at each layer that a SmallRun agrees on.
v1::ScoreBatchRequest MadeUpScores(int64_t rows);

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PEER_MESSAGES_H_
