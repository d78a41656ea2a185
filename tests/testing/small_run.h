// Options of a small run for tests in one process: data made up on the spot, two model halves that fit them.
#ifndef SPLITVEIL_TESTS_TESTING_SMALL_RUN_H_
#define SPLITVEIL_TESTS_TESTING_SMALL_RUN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "label_party/session/label_session.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/testing/small_table.h"

namespace splitveil::testing {

struct SmallRun {
  // `examples` common ids, each with 2 numeric and 2 categorical features that tell the label in part. Each party holds
  // some ids more. Of another task than two classes, a label's first or second half (of the classes, of [0, 1]) is what
  // the features tell. Cut width 8, batches of 64, epochs 2, no noise, seeds fixed, ORACLE audit at cut and first.
  explicit SmallRun(int examples = 512, const Task& task = {});

  // Gives every person an attribute A1 of two values (a third of them the second; one in ten unknown), which the
  // non-label party's numeric features show openly, and the label party the same of all of them from elsewhere, with
  // these features. Agrees on BASIC, LINEAR_PROBE and POISON: auxiliary_fraction 0.2, marked_fraction 0.2.
  void AttackAttributes();

  // Both parties' options as the agreement and the configurations stand now.
  LabelSessionOptions LabelOptions();
  NonLabelSessionOptions NonLabelOptions(LabelPartyPeer* peer);
  // Either party's data, prepared for the agreement's split as it stands now.
  std::shared_ptr<const Dataset> LabelDataset() const;
  std::shared_ptr<const Dataset> NonLabelDataset() const;

  const TempFolder files;
  v1::RunAgreement agreement;  // Canonical.
  v1::LabelPartyConfig label_config;
  v1::NonLabelPartyConfig nonlabel_config;
  SmallTable label_data, nonlabel_data;
  SmallTable known_attributes;  // Of the label party; no ids: none.
  CheckpointPlan label_checkpoints, nonlabel_checkpoints;
  std::optional<std::array<uint8_t, 32>>
      noise_key;  // Of all sessions, as beside checkpoints; nullopt: a fresh one each.
  RunStatus label_status{"label_party"}, nonlabel_status{"nonlabel_party"};
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_SMALL_RUN_H_
