// The label party's side of attacks that score every training example once, from a few labels they are given.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_COMPLETION_AUDIT_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_COMPLETION_AUDIT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"

#include "common/crypto/digest.h"
#include "label_party/audit/leak_auditor.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// Discloses the labels of as many training examples as agreed, half of them positive where there are so many, and takes
// the scores of all training examples in ascending position. Not thread-safe.
class CompletionAudit {
 public:
  struct Options {
    int32_t auxiliary_labels = 0;     // As agreed, > 0.
    int64_t max_chunk = 0;            // Scores a request, at most.
    uint32_t epoch = 0;               // The last one, for the record.
    Digest key{};                     // Secret, of the run: which examples are disclosed.
    std::vector<uint32_t> positions;  // Of the training examples, ascending.
    std::vector<uint8_t> labels;      // Theirs.
  };
  // `auditor`: not owned; must outlive this.
  CompletionAudit(Options options, LeakAuditor* auditor);

  // The disclosed examples, uniform under the key: the same at every call, and of every object made from the same
  // options, so that a run that is interrupted and goes on discloses no others.
  const v1::AuxiliaryLabelsResponse& auxiliary() const { return auxiliary_; }

  // Takes the next chunk, or the latest once more, which changes nothing; with the last one the figures over the
  // examples that were not disclosed are recorded. Errors: FailedPrecondition for a chunk out of order or an attack
  // scored before; InvalidArgument for an attack that does not run once per run, or a malformed chunk. A chunk that is
  // refused changes nothing.
  absl::Status Score(const v1::ScoreExamplesRequest& request);

 private:
  // That `request` is the latest chunk again, of `chunk` scores.
  absl::Status CheckRepeated(const v1::ScoreExamplesRequest& request, size_t chunk) const;
  absl::Status Record(v1::Attack attack, const std::vector<float>& scores) const;

  const Options options_;
  LeakAuditor* const auditor_;
  v1::AuxiliaryLabelsResponse auxiliary_;
  std::map<v1::Attack, std::vector<float>> scores_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_COMPLETION_AUDIT_H_
