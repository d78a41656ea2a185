// How fast a run will be over a link, before there is one.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_LINK_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_LINK_PLAN_H_

#include <cstdint>
#include <string>

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// Defaults: the agreement's.
struct LinkPlanOptions {
  double round_trip_ms = 0;
  double bandwidth_mbps = 0;  // Of each direction, 10^6 bits a second; positive.
  int64_t cut_width = 0;
  v1::DataType wire_dtype = v1::FLOAT32;
  int64_t batch_size = 1024;
  int64_t in_flight_batches = 1;  // 0: as the parties would choose.
  int64_t max_in_flight_batches = 32;
  double step_ms = 2;  // What the slower party computes for a batch.
  int64_t rows = 0;    // Trained on, each epoch: of those shared the parties hold some out, so that theirs are fewer.
  int64_t epochs = 0;
};

// By the formulas that parties choose by (common/schedule/link_use.h), without what messages, TLS and TCP add. What is
// expected is the most that a link lets through: lost packets, and a connection that slows down where it waits, take
// away from it.
struct LinkPlan {
  LinkPlanOptions options;     // With the number in flight, at least 1.
  int64_t chosen_batches = 0;  // What in_flight_batches: 0 comes to.
  double batch_ms = 0;         // What a batch's bytes take in one direction.
  double examples_per_second = 0;
  double link_share = 0;  // In use in each direction while training, 0 to 1.
  double seconds = 0;     // Of all rows and epochs, evaluations left out.
};

LinkPlan MakeLinkPlan(const LinkPlanOptions& options);

// For people, one figure a line.
std::string LinkPlanText(const LinkPlan& plan);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_LINK_PLAN_H_
