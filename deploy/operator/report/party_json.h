// What each party's ledger says of a run but its leaks, as JSON: facts, configuration, events, and where its time went.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_PARTY_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_PARTY_JSON_H_

#include "deploy/operator/page/json_values.h"
#include "deploy/operator/records/run_records.h"

namespace splitveil {

// [{"role", "facts": [[name, value]], "config"}]. Facts are those that a ledger has: protection, status, times, sizes,
// the gate's decisions, versions. A configuration that is no JSON is shown as it is.
Json PartiesJson(const RunRecords& run);

// [{"at", "party", "kind", "detail"}] of both parties in the order of their times; of many, the first and the last.
Json EventsJson(const RunRecords& run);

// The phases in the order of a bar, with what each means: [{"name", "words"}, ...].
Json PhasesJson();

// Of each party that recorded times: {"role", "step" (milliseconds, mean over the steps), "phases" (milliseconds, as
// PhasesJson), "words"}. Empty where none did.
Json TimesJson(const RunRecords& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_PARTY_JSON_H_
