// A leak auditor over a ledger of its own, and batches to audit.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_AUDIT_LEAK_AUDITOR_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_AUDIT_LEAK_AUDITOR_FIXTURE_H_

#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/config/agreement.h"
#include "common/transport/tensor_codec.h"
#include "label_party/audit/leak_auditor.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {

class LeakAuditorTest : public ::testing::Test {
 protected:
  LeakAuditorTest() {
    agreement_.set_run_name("audit");
    agreement_.set_cut_width(2);
    agreement_.mutable_audit()->add_layers("cut");
    agreement_.mutable_audit()->add_attacks(v1::NORM);
    agreement_.mutable_audit()->set_disclosure(v1::ORACLE);
    Canonicalize(agreement_);
    RunRow run;
    run.run_id = "audit-1";
    run.role = "label_party";
    absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Create(files_.File("ledger.db"), run);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
    auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(100), ledger_.get());
  }

  static ReleasedBatch Batch(uint32_t batch, std::vector<uint8_t> labels, int64_t hint_row) {
    ReleasedBatch released;
    released.step = batch;
    released.batch = batch;
    released.labels = std::move(labels);
    for (uint32_t row = 0; row < released.labels.size(); ++row) {
      released.positions.push_back(row);
    }
    if (hint_row >= 0) {
      released.hint_rows = {static_cast<uint32_t>(hint_row)};
    }
    return released;
  }

  static v1::ScoreBatchRequest Scores(uint32_t batch, const std::vector<float>& values) {
    v1::ScoreBatchRequest request;
    request.set_batch(batch);
    v1::ScoreBatchRequest::Scores* scores = request.add_scores();
    scores->set_layer("cut");
    scores->set_attack(v1::NORM);
    const ConstMatrixView view(values.data(), 1, static_cast<int64_t>(values.size()));
    EXPECT_TRUE(EncodeMatrix(view, v1::FLOAT32, *scores->mutable_scores()).ok());
    return request;
  }

  TempFolder files_;
  v1::RunAgreement agreement_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<LeakAuditor> auditor_;
};

// Released gradients of `rows` examples whose classes lie `distance` apart, with noise of standard deviation 1.
struct Gaussians {
  Gaussians(int64_t rows, double distance, uint64_t seed) : clean(rows, 2), released(rows, 2) {
    std::mt19937_64 random(seed);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
    std::normal_distribution<float> normal;
    for (int64_t j = 0; j < rows; ++j) {
      labels.push_back(j % 4 == 0);
      clean.row(j)[0] = labels.back() == 1 ? static_cast<float>(distance) : 0.0f;
      released.row(j)[0] = clean.row(j)[0] + normal(random);
      released.row(j)[1] = normal(random);
    }
  }
  Matrix clean, released;
  std::vector<uint8_t> labels;
};

inline ReleaseEvidence Evidence(const Gaussians& batch, NoiseVariances stated, double sum_kl,
                                double accumulated_sum_kl) {
  return {batch.released, batch.clean, batch.clean, stated, stated, sum_kl, accumulated_sum_kl};
}

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_AUDIT_LEAK_AUDITOR_FIXTURE_H_
