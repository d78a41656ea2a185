#include "common/monitoring/access_rules.h"

#include <algorithm>
#include <array>
#include <openssl/crypto.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr int kOk = 200, kUnauthorized = 401, kForbidden = 403;
constexpr std::array<absl::string_view, 4> kPageFiles = {"/", "/console.css", "/console.js", "/chart.js"};

// Of "host:port", "[::1]:9443", or without a port.
absl::string_view HostOf(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    return host.substr(0, host.find(']') + 1);
  }
  return host.substr(0, host.find(':'));
}

bool LeadsBack(absl::string_view host) {
  const absl::string_view name = HostOf(host);
  const bool is_v4 = absl::StartsWith(name, "127.") &&
                     std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
  return is_v4 || absl::EqualsIgnoreCase(name, "localhost") || name == "[::1]";
}

}  // namespace

bool AccessRules::HasToken(const RequestFacts& request) const {
  absl::string_view token = request.authorization;
  if (!token_sha256_.has_value() || !absl::ConsumePrefix(&token, "Bearer ")) {
    return false;
  }
  const Digest digest = Sha256(token);
  return CRYPTO_memcmp(digest.data(), token_sha256_->data(), digest.size()) == 0;
}

int AccessRules::Check(const RequestFacts& request) const {
  if (is_loopback_ && !LeadsBack(request.host)) {
    return kForbidden;
  }
  if (request.method == "GET" || request.method == "HEAD") {
    const bool is_page = std::find(kPageFiles.begin(), kPageFiles.end(), request.path) != kPageFiles.end();
    return is_page || !token_sha256_.has_value() || HasToken(request) ? kOk : kUnauthorized;
  }
  if (request.method != "POST" || !token_sha256_.has_value()) {
    return kForbidden;
  }
  if (!HasToken(request)) {
    return kUnauthorized;
  }
  const std::string own_origin = absl::StrCat(is_loopback_ ? "http://" : "https://", request.host);
  return request.origin == own_origin && absl::StrCat("/", request.action) == request.path ? kOk : kForbidden;
}

}  // namespace splitveil
