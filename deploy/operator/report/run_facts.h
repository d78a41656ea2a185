// What is known of one party's run: names, times, sizes, versions.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_RUN_FACTS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_RUN_FACTS_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

namespace splitveil {

struct Fact {
  std::string name, value;
};

// In the order the page shows them; facts nobody recorded are left out. Versions come from config_json: every value
// whose path speaks of a version.
std::vector<Fact> RunFacts(const PartyRecords& party);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_RUN_FACTS_H_
