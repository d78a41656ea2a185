// Who may ask, and for how much.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_CALLERS_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_CALLERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/crypto/digest.h"
#include "common/process/steady_time.h"
#include "common/transport/server.h"

#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/serving.pb.h"

namespace splitveil {

// What a request brings to show whose it is.
struct CallerProof {
  bool by_socket = false;                      // It came by a socket that only this party's own user can open.
  std::string authorization;                   // "Bearer TOKEN"; empty: none.
  std::vector<std::string> certificate_names;  // DNS names of a certificate that TLS has verified.
};

// Thread-safe.
class Callers {
 public:
  // Requests of one caller at a time: half of what gRPC or REST takes, so that a caller whose requests are slow does
  // not keep out the others.
  static constexpr int kMostUnderWay = 16;

  // Of one request, which is under way for as long as this lives. Nobody else makes one: a function that takes it is
  // for callers alone. The Callers must outlive it.
  struct Caller {
    std::string name;
    bool outside = false;
    size_t place = 0;                             // Among those configured.
    std::unique_ptr<const CallLimit::Slot> slot;  // Null: nothing limits this one.
    SteadyTime charged = {};                      // The latest Charge.
  };

  // Reads the tokens. `protection`: the label party's in the run that trained the model. Errors: NotFound;
  // InvalidArgument, naming the field: two of one name, certificate or token, one with neither; an outside caller
  // without gaussian_label_dp and release_head_predicts, or unproved_answers; these without an outside caller.
  static absl::StatusOr<std::unique_ptr<Callers>> Create(const v1::ServingConfig& config,
                                                         const v1::GradientProtection& protection,
                                                         SteadyClock clock = &SteadyNow);

  // Tokens are compared in constant time. Errors: Unauthenticated; ResourceExhausted where kMostUnderWay requests of
  // this caller are under way.
  absl::StatusOr<Caller> Admit(const CallerProof& proof) const;
  bool Knows(const CallerProof& proof) const { return Find(proof).has_value(); }
  // Whether an outside caller shows this token, given by its SHA-256.
  bool IsOutsideToken(const Digest& token_sha256) const;
  // Counts `rows` more answers. Errors: ResourceExhausted, and nothing is counted.
  absl::Status Charge(Caller& caller, int64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);
  // The rows of the latest Charge, whose request got no answers.
  void GiveBack(const Caller& caller, int64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kOwner = static_cast<size_t>(-1);  // Place of the party itself, which nothing limits.

  struct Entry {
    v1::Caller config;
    std::optional<Digest> token_sha256;
    std::unique_ptr<CallLimit> under_way;
  };
  struct Day {
    std::optional<SteadyTime> begin;
    int64_t rows = 0;
  };

  Callers(std::vector<Entry> entries, SteadyClock clock)
      : entries_(std::move(entries)), clock_(std::move(clock)), days_(entries_.size()) {}

  // Its place.
  std::optional<size_t> Find(const CallerProof& proof) const;

  const std::vector<Entry> entries_;
  const SteadyClock clock_;
  absl::Mutex mutex_;
  std::vector<Day> days_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_CALLERS_H_
