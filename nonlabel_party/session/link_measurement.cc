#include "nonlabel_party/session/link_measurement.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int64_t kMostBytes = int64_t{4} << 20;
constexpr int kCalls = 6;

// The shortest of kCalls calls with as many bytes both ways.
absl::StatusOr<absl::Duration> Shortest(RunPeer& peer, const std::string& run_id, int64_t bytes) {
  v1::MeasureLinkRequest request;
  request.set_run_id(run_id);
  request.set_padding(std::string(static_cast<size_t>(bytes), '\0'));
  request.set_answer_bytes(static_cast<uint32_t>(bytes));
  absl::Duration shortest = absl::InfiniteDuration();
  for (int i = 0; i < kCalls; ++i) {
    const SteadyTime begin = SteadyNow();
    SPLITVEIL_ASSIGN_OR_RETURN(const v1::MeasureLinkResponse response, peer.MeasureLink(request));
    shortest = std::min(shortest, absl::FromChrono(SteadyNow() - begin));
    if (static_cast<int64_t>(response.padding().size()) != bytes) {
      return AsRefusal(absl::InvalidArgumentError(
          absl::StrCat("MeasureLink: expected ", bytes, " bytes, found ", response.padding().size())));
    }
  }
  return shortest;
}

}  // namespace

absl::StatusOr<LinkFigures> MeasureLink(RunPeer& peer, const std::string& run_id, int64_t batch_bytes) {
  const int64_t bytes = std::min(batch_bytes, kMostBytes);
  LinkFigures link;
  SPLITVEIL_ASSIGN_OR_RETURN(link.round_trip, Shortest(peer, run_id, 0));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration loaded, Shortest(peer, run_id, bytes));
  const double share = static_cast<double>(batch_bytes) / static_cast<double>(bytes);
  link.batch = std::max(absl::ZeroDuration(), loaded - link.round_trip) / 2 * share;
  return link;
}

}  // namespace splitveil
