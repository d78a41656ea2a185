#include "label_party/serving/callers.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/crypto/sha256.h"
#include "common/monitoring/monitoring_plan.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr absl::string_view kBearer = "Bearer ";

}  // namespace

absl::StatusOr<std::unique_ptr<Callers>> Callers::Create(const v1::ServingConfig& config,
                                                         const v1::GradientProtection& protection, SteadyClock clock) {
  const bool is_noised = protection.has_gaussian_label_dp() && protection.gaussian_label_dp().release_head_predicts();
  std::vector<Entry> entries;
  std::set<std::string> names, certificates;
  std::set<Digest> tokens;
  for (int i = 0; i < config.callers_size(); ++i) {
    const v1::Caller& caller = config.callers(i);
    const std::string field = absl::StrCat("callers[", i, "]");
    if (!names.insert(caller.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".name: \"", caller.name(), "\" is used twice"));
    }
    if (caller.certificate_name().empty() && caller.token_path().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ": has neither certificate_name nor token_path: set one, so that the caller can show who it is"));
    }
    if (!caller.certificate_name().empty() &&
        (config.caller_authority_path().empty() || !certificates.insert(caller.certificate_name()).second)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".certificate_name: needs caller_authority_path, and a name that no other caller has"));
    }
    if (caller.outside() && !is_noised && !config.has_unproved_answers()) {
      return absl::InvalidArgumentError(absl::StrCat(
          field,
          ".outside: answers of this model would tell the caller labels that no account counts: train with "
          "protection { gaussian_label_dp { release_head_predicts: true } }, limit them by unproved_answers, or remove "
          "the caller"));
    }
    Entry entry = {caller, std::nullopt, std::make_unique<CallLimit>(kMostUnderWay)};
    if (!caller.token_path().empty()) {
      SPLITVEIL_ASSIGN_OR_RETURN(entry.token_sha256, ReadToken(field + ".token_path", caller.token_path()));
      if (!tokens.insert(*entry.token_sha256).second) {
        return absl::InvalidArgumentError(absl::StrCat(field, ".token_path: another caller has the same token"));
      }
    }
    entries.push_back(std::move(entry));
  }
  if (config.has_unproved_answers() &&
      std::none_of(config.callers().begin(), config.callers().end(), [](const auto& each) { return each.outside(); })) {
    return absl::InvalidArgumentError("unproved_answers: no caller is outside: remove it, or mark one");
  }
  return std::unique_ptr<Callers>(new Callers(std::move(entries), std::move(clock)));
}

bool Callers::IsOutsideToken(const Digest& token_sha256) const {
  return absl::c_any_of(
      entries_, [&](const Entry& entry) { return entry.config.outside() && entry.token_sha256 == token_sha256; });
}

std::optional<size_t> Callers::Find(const CallerProof& proof) const {
  if (proof.by_socket) {
    return kOwner;
  }
  // The scheme's name has no case (RFC 9110, section 11.1).
  absl::string_view token = proof.authorization;
  const bool has_token = absl::StartsWithIgnoreCase(token, kBearer);
  token.remove_prefix(has_token ? kBearer.size() : 0);
  const Digest digest = Sha256(token);
  std::optional<size_t> found;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    // Digests in constant time, and each of them: how long it takes says nothing of any token.
    const bool by_token = has_token && entry.token_sha256.has_value() &&
                          CRYPTO_memcmp(digest.data(), entry.token_sha256->data(), digest.size()) == 0;
    const std::string& name = entry.config.certificate_name();
    const bool by_name =
        !name.empty() && std::any_of(proof.certificate_names.begin(), proof.certificate_names.end(),
                                     [&](const std::string& shown) { return absl::EqualsIgnoreCase(shown, name); });
    // A token that is shown decides: a gateway's certificate may carry requests of several callers.
    if (by_token || (by_name && !has_token)) {
      found = i;
    }
  }
  return found;
}

absl::StatusOr<Callers::Caller> Callers::Admit(const CallerProof& proof) const {
  const std::optional<size_t> found = Find(proof);
  if (!found.has_value()) {
    return absl::UnauthenticatedError(
        "the server does not know this caller: send the header \"authorization: Bearer TOKEN\" with a token of its "
        "configuration, or use a certificate with a name that is configured there");
  }
  if (*found == kOwner) {
    return Caller{"owner", false, kOwner, nullptr};
  }
  const Entry& entry = entries_[*found];
  auto slot = std::make_unique<const CallLimit::Slot>(entry.under_way.get());
  if (!slot->granted()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many requests: ", kMostUnderWay, " of this caller are under way: wait for their answers"));
  }
  return Caller{entry.config.name(), entry.config.outside(), *found, std::move(slot)};
}

absl::Status Callers::Charge(Caller& caller, int64_t rows) {
  const int64_t most = caller.place == kOwner ? 0 : entries_[caller.place].config.daily_answers();
  if (most == 0) {
    return absl::OkStatus();
  }
  const absl::MutexLock lock(&mutex_);
  Day& day = days_[caller.place];
  const SteadyTime now = clock_();
  if (!day.begin.has_value() || now >= SteadyAfter(absl::Hours(24), *day.begin)) {
    day = {now, 0};
  }
  if (rows > most - day.rows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("daily_answers: this request has ", rows, " ids, but only ", most - day.rows, " of ", most,
                     " are left: ask for fewer, or wait until 24 hours after the first request"));
  }
  day.rows += rows;
  caller.charged = now;
  return absl::OkStatus();
}

void Callers::GiveBack(const Caller& caller, int64_t rows) {
  if (caller.place == kOwner) {
    return;
  }
  const absl::MutexLock lock(&mutex_);
  // A new day may have begun meanwhile, to which they do not count.
  if (Day& day = days_[caller.place]; day.begin.has_value() && *day.begin <= caller.charged) {
    day.rows -= rows;
  }
}

}  // namespace splitveil
