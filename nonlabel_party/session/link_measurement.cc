#include "nonlabel_party/session/link_measurement.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int64_t kMostBytes = int64_t{128} << 10;
constexpr int kLeastTurns = 3, kMostTurns = 8, kAtOnce = 8;
constexpr absl::Duration kLongEnough = absl::Seconds(2);

// What a turn takes: so many calls at once, each with `sent` bytes there and `returned` back.
absl::StatusOr<absl::Duration> Turn(RunPeer& peer, const std::string& run_id, int calls, int64_t sent,
                                    int64_t returned) {
  v1::MeasureLinkRequest request;
  request.set_run_id(run_id);
  request.set_padding(std::string(static_cast<size_t>(sent), '\0'));
  request.set_answer_bytes(static_cast<uint32_t>(returned));
  const SteadyTime begin = SteadyNow();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<v1::MeasureLinkResponse> responses, peer.MeasureLink(request, calls));
  const absl::Duration took = absl::FromChrono(SteadyNow() - begin);
  for (const v1::MeasureLinkResponse& response : responses) {
    if (static_cast<int64_t>(response.padding().size()) != returned) {
      return AsRefusal(absl::InvalidArgumentError(
          absl::StrCat("MeasureLink: expected ", returned, " bytes, found ", response.padding().size())));
    }
  }
  return took;
}

// The shortest of several turns: a connection gathers speed at first, and in one of them it may have been lost.
template <typename Turn>
absl::StatusOr<absl::Duration> Shortest(const Turn& turn) {
  absl::Duration shortest = absl::InfiniteDuration(), sum;
  for (int i = 0; i < kLeastTurns || (i < kMostTurns && sum < kLongEnough); ++i) {
    SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration took, turn());
    shortest = std::min(shortest, took);
    sum += took;
  }
  return shortest;
}

}  // namespace

absl::StatusOr<LinkFigures> MeasureLink(RunPeer& peer, const std::string& run_id, int64_t batch_bytes) {
  const int64_t bytes = std::min(batch_bytes, kMostBytes);
  LinkFigures link;
  SPLITVEIL_ASSIGN_OR_RETURN(link.round_trip, Shortest([&] { return Turn(peer, run_id, 1, 0, 0); }));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration there,
                             Shortest([&] { return Turn(peer, run_id, kAtOnce, bytes, 0); }));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration back,
                             Shortest([&] { return Turn(peer, run_id, kAtOnce, 0, bytes); }));
  const double batches = static_cast<double>(kAtOnce * bytes) / static_cast<double>(batch_bytes);
  link.batch = std::max(absl::ZeroDuration(), std::max(there, back) - link.round_trip) / batches;
  return link;
}

}  // namespace splitveil
