// Where the time of a run's steps went, for the page.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_TIME_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_TIME_JSON_H_

#include "deploy/operator/page/json_values.h"
#include "deploy/operator/records/run_records.h"

namespace splitveil {

// The phases in the order of a bar, with what each means: [{"name", "words"}, ...].
Json PhasesJson();

// Of each party that recorded times: {"role", "step" (milliseconds, mean over the steps), "phases" (milliseconds, as
// PhasesJson), "words"}. Empty where none did.
Json TimesJson(const RunRecords& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_TIME_JSON_H_
