// What a run of the label party is given before its peer comes.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_RUN_CONTEXT_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_RUN_CONTEXT_H_

#include <memory>
#include <string>

#include "common/dataset/dataset.h"
#include "common/operations/run_status.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct RunContext {
  const v1::RunAgreement agreement;   // Canonical and valid.
  const v1::LabelPartyConfig config;  // Valid; defaults set.
  const std::shared_ptr<const Dataset> data;
  const std::shared_ptr<const Dataset> known_attributes;  // Null: no attacks on attributes are agreed.
  RunStatus* const status;                                // Not owned; must outlive the run.
  const std::string account_id;                           // Of the privacy account; empty: none counts the run.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_RUN_CONTEXT_H_
