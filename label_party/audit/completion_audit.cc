#include "label_party/audit/completion_audit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/seeded_stream.h"
#include "common/leakage/attack_traits.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

// Takes `count` ranks out of `from`, each set of so many as likely as any other.
void Draw(int64_t count, SeededStream& stream, std::vector<uint32_t>& from, std::vector<uint32_t>& drawn) {
  for (int64_t i = 0; i < count && !from.empty(); ++i) {
    std::swap(from[stream.UniformBelow(static_cast<uint32_t>(from.size()))], from.back());
    drawn.push_back(from.back());
    from.pop_back();
  }
}

}  // namespace

CompletionAudit::CompletionAudit(Options options, LeakAuditor* auditor)
    : options_(std::move(options)), auditor_(auditor) {
  // Half of them positive, as the attack needs both classes; if there are too few, negatives fill the rest.
  std::vector<uint32_t> ranks[2], drawn;
  for (uint32_t rank = 0; rank < options_.labels.size(); ++rank) {
    ranks[options_.labels[rank]].push_back(rank);
  }
  SeededStream stream(options_.key);
  Draw(options_.auxiliary_labels / 2, stream, ranks[1], drawn);
  Draw(options_.auxiliary_labels - static_cast<int64_t>(drawn.size()), stream, ranks[0], drawn);
  // Sorted, so that the order of the draw tells nothing, and Record can search.
  std::sort(drawn.begin(), drawn.end());
  for (uint32_t rank : drawn) {
    auxiliary_.add_positions(options_.positions[rank]);
    auxiliary_.mutable_labels()->push_back(static_cast<char>(options_.labels[rank]));
  }
}

absl::Status CompletionAudit::Score(const v1::ScoreExamplesRequest& request) {
  if (!TraitsOf(request.attack()).once_per_run()) {
    return absl::InvalidArgumentError("ScoreExamples: attack: it is scored batch by batch: use ScoreBatch");
  }
  const auto known = scores_.find(request.attack());
  const size_t done = known == scores_.end() ? 0 : known->second.size();
  const size_t left = options_.labels.size() - done;
  const auto largest = static_cast<size_t>(options_.max_chunk);
  if (request.first() < done && request.first() % largest == 0 && done - request.first() <= largest) {
    // The latest chunk may come again, as its answer may have been lost.
    return CheckRepeated(request, done - request.first());
  }
  if (request.first() != done || left == 0) {
    return absl::FailedPreconditionError(absl::StrCat("ScoreExamples: expected the chunk from example ", done, " of ",
                                                      options_.labels.size(), ", found from ", request.first()));
  }
  const int64_t chunk = std::min<int64_t>(options_.max_chunk, static_cast<int64_t>(left));
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix scores, DecodeMatrix(request.scores(), {"scores", v1::FLOAT32, 1, chunk}));
  std::vector<float>& all = scores_[request.attack()];
  all.insert(all.end(), scores.row(0).begin(), scores.row(0).end());
  return all.size() == options_.labels.size() ? Record(request.attack(), all) : absl::OkStatus();
}

absl::Status CompletionAudit::CheckRepeated(const v1::ScoreExamplesRequest& request, size_t chunk) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix scores,
                             DecodeMatrix(request.scores(), {"scores", v1::FLOAT32, 1, static_cast<int64_t>(chunk)}));
  const std::vector<float>& all = scores_.at(request.attack());
  return std::equal(scores.row(0).begin(), scores.row(0).end(), all.end() - static_cast<std::ptrdiff_t>(chunk))
             ? absl::OkStatus()
             : absl::FailedPreconditionError("ScoreExamples: expected the next chunk or the same again, found others");
}

absl::Status CompletionAudit::Record(v1::Attack attack, const std::vector<float>& scores) const {
  std::vector<float> unknown_scores;
  std::vector<uint8_t> unknown_labels;
  for (size_t rank = 0; rank < scores.size(); ++rank) {
    // Scored only on examples whose labels were not disclosed: on the others the attack only repeats them.
    if (!std::binary_search(auxiliary_.positions().begin(), auxiliary_.positions().end(), options_.positions[rank])) {
      unknown_scores.push_back(scores[rank]);
      unknown_labels.push_back(options_.labels[rank]);
    }
  }
  return auditor_->RecordRunScores(attack, options_.epoch, unknown_scores, unknown_labels);
}

}  // namespace splitveil
