#include "common/monitoring/monitoring_plan.h"

#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <arpa/inet.h>
#include <openssl/crypto.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

// Short enough to paste, too long to guess.
constexpr size_t kMinTokenBytes = 16, kMaxTokenBytes = 256;
constexpr mode_t kOthers = 077;
constexpr uint32_t kLoopbackNet = 127;

// nullopt: neither an IPv4 nor an IPv6 address.
std::optional<bool> IsLoopback(const std::string& host) {
  in_addr v4 = {};
  in6_addr v6 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == kLoopbackNet;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<bool> IsLoopbackAddress(const std::string& field, const std::string& address) {
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(field, address));
  const std::optional<bool> loopback = IsLoopback(place.host);
  return loopback.has_value()
             ? absl::StatusOr<bool>(*loopback)
             : absl::InvalidArgumentError(
                   absl::StrCat(field, ": expected an IPv4 or IPv6 address with a port, found \"", place.host, "\""));
}

absl::StatusOr<Digest> ReadToken(const std::string& field, const std::string& path) {
  // A token that others can read is theirs to use: the halt button would be anyone's.
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0 && (found.st_mode & kOthers) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s: users other than its owner may read this token (mode %03o): chmod 600, or make a new "
                        "one if any of them has",
                        field, path, found.st_mode & 0777));
  }
  absl::StatusOr<std::string> contents = ReadFile(path);
  SPLITVEIL_RETURN_IF_ERROR(Within(field, contents.status()));
  const absl::string_view token = absl::StripSuffix(*contents, "\n");
  const bool fits = token.size() >= kMinTokenBytes && token.size() <= kMaxTokenBytes &&
                    std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
  const size_t size = token.size();
  const bool has_return = absl::EndsWith(token, "\r");
  const Digest digest = Sha256(token);
  // Only the digest is kept, so that no dump of this process holds the token.
  OPENSSL_cleanse(contents->data(), contents->size());
  return fits ? absl::StatusOr<Digest>(digest)
              : absl::InvalidArgumentError(absl::StrCat(
                    field, ": ", path, ": expected one line of ", kMinTokenBytes, " to ", kMaxTokenBytes,
                    " printable characters without spaces, found ",
                    has_return
                        ? absl::StrCat("a carriage return at its end, as files of Windows have: `sed -i 's/\\r$//' ",
                                       path, "` removes it")
                        : absl::StrCat(size, " bytes, or characters that are not printable")));
}

namespace {

absl::StatusOr<MonitoringPlan> Plan(const v1::Monitoring& config, const std::string& field) {
  MonitoringPlan plan;
  plan.field = absl::StrCat(field, ".listen_address");
  plan.listen_address = config.listen_address();
  SPLITVEIL_ASSIGN_OR_RETURN(plan.is_loopback, IsLoopbackAddress(plan.field, config.listen_address()));
  if (!config.token_path().empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(plan.token_sha256, ReadToken(absl::StrCat(field, ".token_path"), config.token_path()));
  } else if (!plan.is_loopback) {
    // On loopback the machine's users are trusted to read; any other address needs a token.
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".token_path: expected a token file for an address that others can reach (",
                     config.listen_address(), "), found none"));
  }
  return plan;
}

}  // namespace

absl::StatusOr<std::optional<MonitoringPlan>> PlanMonitoring(const v1::PartyCommon& party,
                                                             const std::string& config_path,
                                                             const TlsIdentity& identity, const std::string& field) {
  if (!party.has_monitoring()) {
    return std::optional<MonitoringPlan>();
  }
  absl::StatusOr<MonitoringPlan> plan = Plan(party.monitoring(), field);
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, plan.status()));
  plan->identity = identity;
  return std::optional<MonitoringPlan>(*std::move(plan));
}

}  // namespace splitveil
