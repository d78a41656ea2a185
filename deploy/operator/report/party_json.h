// What each party's ledger says of a run but its leaks, as JSON: facts, configuration, events, and where its time went.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_PARTY_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_PARTY_JSON_H_

#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"

namespace splitveil {

// [{"role", "facts": [[name, value]], "config"}]. Facts are those that a ledger has: protection, status, times, sizes,
// the gate's decisions, versions. A configuration that is no JSON is shown as it is.
Json PartiesJson(const LedgerRun& run);

// [{"at", "party", "kind", "detail"}] of both parties in the order of their times; of many, the first and the last.
Json EventsJson(const LedgerRun& run);

// The phases in the order of a bar, with what each means: [{"name", "words"}, ...].
Json PhasesJson();

// Of each party that recorded times: {"role", "step" (milliseconds, mean over the steps), "phases" (milliseconds, as
// PhasesJson), "words"}. Empty where none did.
Json TimesJson(const LedgerRun& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_PARTY_JSON_H_
