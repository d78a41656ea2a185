// Who may ask a party's monitoring for what.
#ifndef SPLITVEIL_COMMON_MONITORING_ACCESS_RULES_H_
#define SPLITVEIL_COMMON_MONITORING_ACCESS_RULES_H_

#include <optional>
#include <string>

#include "common/crypto/digest.h"

namespace splitveil {

// What is known of a request before anything is done for it. Header fields are empty where they are missing.
struct RequestFacts {
  std::string method, path;
  std::string host, origin, authorization, action;  // `action`: X-Splitveil-Action.
};

// The page's own files hold no figure and are for everybody who reaches the port; figures are for who has the token;
// what changes the run, every POST, is for who has the token, asks from the page itself and says so in a header that no
// other page can set without this party's leave. Without a token nothing can be changed.
//
// On a loopback address the Host must be one: a name that an outside page makes lead here (DNS rebinding) is refused.
// Thread-safe.
class AccessRules {
 public:
  // `token_sha256`: nullopt: figures are for everybody who reaches the port, on loopback alone.
  AccessRules(bool is_loopback, std::optional<Digest> token_sha256)
      : is_loopback_(is_loopback), token_sha256_(token_sha256) {}

  // 200, 401 (no token, or another one) or 403, as HTTP has it. Tokens are compared in constant time.
  int Check(const RequestFacts& request) const;
  bool allows_changes() const { return token_sha256_.has_value(); }

 private:
  bool HasToken(const RequestFacts& request) const;

  const bool is_loopback_;
  const std::optional<Digest> token_sha256_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_ACCESS_RULES_H_
