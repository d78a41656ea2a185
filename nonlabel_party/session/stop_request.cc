#include "nonlabel_party/session/stop_request.h"

namespace splitveil {

bool StopRequest::Asked() {
  if (!seen_ && stop_()) {
    seen_ = true;
  }
  return seen_;
}

}  // namespace splitveil
