// What outlives the training of a half of the model: its parameters, the state of its training, its exported form.
#ifndef SPLITVEIL_COMMON_MODEL_MODEL_STATE_H_
#define SPLITVEIL_COMMON_MODEL_MODEL_STATE_H_

#include <string>

#include "absl/status/status.h"

#include "common/model/parameters.h"

namespace splitveil {

// For checkpoints, exports and attacks, which do not train the half. What the parameters are called is said where the
// half is: BottomModel, TopModel. Not thread-safe.
class ModelState {
 public:
  virtual ~ModelState() = default;

  // Copies of all parameters as Predict uses them: their averages if there are any (v1::Optimizer.average_decay).
  // The optimiser's moments are not among them.
  virtual NamedParameters Parameters() const = 0;
  // Overwrites all parameters, from which their averages restart; pending passes keep theirs. Errors:
  // InvalidArgument if names or sizes differ, then nothing is changed.
  virtual absl::Status SetParameters(const NamedParameters& parameters) = 0;

  // All that training resumes from: the parameters as trained, under the names of Parameters(); "NAME.moment1" and
  // "NAME.moment2" for each name among them, as many as the optimiser remembers (ParameterOptimizer::moment), and
  // "NAME.average", if there is one, an embedding's with "NAME.average.steps"; "steps" (CopyTrainingState). Only
  // if no batch is between its gradients and its Update.
  virtual NamedParameters TrainingState() const = 0;
  // Resumes from there. Embeddings and their moments may have fewer rows than the tables, whose other rows keep their
  // fresh start. Errors: InvalidArgument if names or sizes differ (another model or optimiser), then nothing is
  // changed.
  virtual absl::Status SetTrainingState(const NamedParameters& state) = 0;

  // Writes the half to `folder` (ExportTarget), as the party that it belongs to. Errors: see ExportHalf.
  virtual absl::Status ExportTo(const std::string& folder) const = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_MODEL_STATE_H_
