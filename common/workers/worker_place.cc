#include "common/workers/worker_place.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

constexpr std::pair<const char*, const char*> kRankAndSize[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
    {"JOB_COMPLETION_INDEX", "WORLD_SIZE"},
};

absl::StatusOr<int> ReadNumber(const Environment& environment, const char* name, int least, int most) {
  const char* const text = environment(name);
  int number = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &number) || number < least || number > most) {
    return absl::InvalidArgumentError(absl::StrCat("environment variable ", name, ": expected a whole number from ",
                                                   least, " to ", most, ", found ",
                                                   text == nullptr ? "none" : absl::StrCat("\"", text, "\"")));
  }
  return number;
}

// The leader's address, with brackets around one of IPv6.
absl::StatusOr<std::string> ReadLeaderAddress(const Environment& environment) {
  const char* const host = environment("MASTER_ADDR");
  if (host == nullptr || *host == '\0') {
    return absl::InvalidArgumentError(
        "environment variable MASTER_ADDR: expected the name or address of the machine of rank 0, found none");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const int port, ReadNumber(environment, "MASTER_PORT", 1, UINT16_MAX));
  const bool needs_brackets = absl::StrContains(host, ':') && *host != '[';
  std::string address = needs_brackets ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
  SPLITVEIL_RETURN_IF_ERROR(ParseHostPort("environment variables MASTER_ADDR and MASTER_PORT", address).status());
  return address;
}

}  // namespace

absl::StatusOr<std::optional<WorkerPlace>> FindWorkerPlace(const Environment& environment) {
  for (const auto& [rank, size] : kRankAndSize) {
    if (environment(rank) == nullptr || environment(size) == nullptr) {
      continue;
    }
    WorkerPlace place;
    SPLITVEIL_ASSIGN_OR_RETURN(place.size, ReadNumber(environment, size, 1, kMostWorkers));
    SPLITVEIL_ASSIGN_OR_RETURN(place.rank, ReadNumber(environment, rank, 0, place.size - 1));
    if (place.size == 1) {
      return std::nullopt;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(place.leader_address, ReadLeaderAddress(environment));
    return place;
  }
  return std::nullopt;
}

}  // namespace splitveil
