// The test and validation examples: forward, to the label party, which alone can judge them.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_EPOCH_EVALUATOR_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_EPOCH_EVALUATOR_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "common/dataset/feature_table.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/stop_request.h"

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// Not thread-safe.
class EpochEvaluator {
 public:
  struct Options {
    TrainingPeer* peer = nullptr;  // Not owned; must outlive this, as all here.
    std::string run_id;
    int64_t batch_size = 0;  // As agreed, > 0.
    v1::DataType wire_dtype = v1::FLOAT32;
    BottomPredictor* model = nullptr;
    const FeatureTable* features = nullptr;
    std::vector<uint32_t> test;   // Aligned positions of the examples to evaluate: TrainTestSplit::Evaluated.
    StopRequest* stop = nullptr;  // Asked between batches.
  };
  explicit EpochEvaluator(Options options) : options_(std::move(options)) {}

  // Sends the cut activations of every example to evaluate after the training of `epoch`; nothing where there are none.
  // True: the label party wants no further epoch. Errors: StoppedOnRequest; the label party's; a refusal where it has
  // judged another number of examples; Internal for activations that overflow.
  absl::StatusOr<bool> Evaluate(uint32_t epoch);

 private:
  const Options options_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_EPOCH_EVALUATOR_H_
