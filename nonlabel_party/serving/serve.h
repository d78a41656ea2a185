// `nonlabel_party serve`: answers the label party's live requests until it is told to stop.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVING_SERVE_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVING_SERVE_H_

#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Serves as `config_path` (v1.LiveServingConfig) says until SIGTERM or SIGINT: then it is not ready any more, answers
// what has come, and returns OK. Errors: NotFound, InvalidArgument as one line that says where.
absl::Status ServeLive(const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVING_SERVE_H_
