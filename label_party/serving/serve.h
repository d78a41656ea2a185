// `label_party serve`: answers requests with stored versions of a trained model until it is told to stop.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_SERVE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_SERVE_H_

#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Serves as `config_path` (v1.ServingConfig) says until SIGTERM or SIGINT: then it is not ready any more, answers what
// has come, and returns OK. Errors: NotFound, InvalidArgument as one line that says where.
absl::Status Serve(const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_SERVE_H_
