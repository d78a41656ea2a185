#include "deploy/operator/records/run_records.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/architecture/model_spec.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kLabelParty[] = "label_party";

template <typename Rows>
absl::Status Take(absl::StatusOr<Rows> from, Rows& to) {
  SPLITVEIL_ASSIGN_OR_RETURN(to, std::move(from));
  return absl::OkStatus();
}

absl::Status ReadRows(LedgerReader& reader, PartyRecords& party) {
  const std::string& run_id = party.record.run.run_id;
  absl::Status status = Take(reader.Steps(run_id), party.steps);
  status.Update(Take(reader.EpochSteps(run_id), party.epochs));
  status.Update(Take(reader.StepTimes(run_id), party.step_times));
  status.Update(Take(reader.Protections(run_id), party.protections));
  status.Update(Take(reader.Evaluations(run_id), party.evaluations));
  status.Update(Take(reader.Leaks(run_id), party.leaks));
  status.Update(Take(reader.EpochLeaks(run_id), party.epoch_leaks));
  status.Update(Take(reader.Distributions(run_id), party.distributions));
  status.Update(Take(reader.AttributeLeaks(run_id), party.attribute_leaks));
  status.Update(Take(reader.PrivacyLosses(run_id), party.privacy_losses));
  status.Update(Take(reader.StepSummaries(run_id), party.removed_steps));
  status.Update(Take(reader.PrivacyLossSummaries(run_id), party.removed_privacy_losses));
  status.Update(Take(reader.LabelReleases(run_id), party.label_releases));
  status.Update(Take(reader.Events(run_id), party.events));
  status.Update(Take(reader.ClaimCheck(run_id), party.claim_check));
  status.Update(Take(reader.AllRuns(run_id), party.all_runs));
  status.Update(Take(reader.ActivationBound(run_id), party.activation_bound));
  return status;
}

absl::StatusOr<std::vector<PartyRecords>> ReadLedger(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LedgerReader> reader, LedgerReader::Open(path));
  absl::StatusOr<std::vector<RunRecord>> records = reader->Runs();
  SPLITVEIL_RETURN_IF_ERROR(Within(path, records.status()));
  if (records->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the ledger holds no run"));
  }
  std::vector<PartyRecords> parties;
  for (RunRecord& record : *records) {
    PartyRecords party;
    party.ledger_name = std::filesystem::path(path).filename().string();
    party.record = std::move(record);
    SPLITVEIL_RETURN_IF_ERROR(Within(path, ReadRows(*reader, party)));
    parties.push_back(std::move(party));
  }
  return parties;
}

absl::Status AddParty(PartyRecords party, std::vector<LedgerRun>& runs) {
  const RunRow& run = party.record.run;
  for (LedgerRun& known : runs) {
    const RunRow& other = known.parties.front().record.run;
    // A run id is chosen by one party and may occur twice; with the agreement's digest it names one run.
    if (other.run_id != run.run_id || other.agreement_sha256 != run.agreement_sha256) {
      continue;
    }
    for (const PartyRecords& counterpart : known.parties) {
      if (counterpart.record.run.role == run.role) {
        return absl::InvalidArgumentError(absl::StrCat("run \"", run.run_id, "\" of ", run.role, " is in two ledgers: ",
                                                       counterpart.ledger_name, " and ", party.ledger_name));
      }
    }
    // Where both parties have rows, the label party's are exact: they are found first.
    const bool first = run.role == kLabelParty;
    known.parties.insert(first ? known.parties.begin() : known.parties.end(), std::move(party));
    return absl::OkStatus();
  }
  LedgerRun added;
  added.parties.push_back(std::move(party));
  runs.push_back(std::move(added));
  return absl::OkStatus();
}

// What protects both directions: "marvell(s=4)", "marvell(s=4); activations: pareto(...)", "no protection"; of a
// baseline "logistic regression with marvell(s=4)".
std::string ProtectionsOf(const LedgerRun& run) {
  if (run.only_predicts()) {
    return "predictions";
  }
  const std::string gradients = run.protection(), activations = run.activation_protection();
  std::vector<std::string> parts;
  if (!gradients.empty() && gradients != "none") {
    parts.push_back(gradients);
  } else if (!gradients.empty() && activations.empty()) {
    // A frozen bottom model is what protected runs are compared with, not a run without protection.
    parts.emplace_back(run.released_nothing() ? "no gradient sent" : "no protection");
  }
  if (!activations.empty()) {
    parts.push_back(absl::StrCat("activations: ", activations));
  }
  std::string protections = absl::StrJoin(parts, "; ");
  if (!run.is_baseline()) {
    return protections;
  }
  // No semicolon, which separates the runs of a list.
  return absl::StrCat("logistic regression", protections.empty() ? "" : " with ", protections);
}

void NameRuns(std::vector<LedgerRun>& runs) {
  for (LedgerRun& run : runs) {
    run.label = ProtectionsOf(run);
    const auto same = [&run](const LedgerRun& other) { return ProtectionsOf(other) == ProtectionsOf(run); };
    if (run.label.empty()) {
      run.label = run.run_id();
    } else if (std::count_if(runs.begin(), runs.end(), same) > 1) {
      run.label = absl::StrCat(run.label, " · ", run.run_id());
    }
  }
}

// What prediction runs stored belongs to the runs that trained the models.
void AddVersions(std::vector<LedgerRun>& runs) {
  for (const LedgerRun& prediction : runs) {
    const PartyRecords* const party = prediction.label_party();
    const auto stored = party == nullptr ? std::vector<EventRow>::const_iterator()
                                         : std::find_if(party->events.begin(), party->events.end(),
                                                        [](const EventRow& row) { return row.kind == kStoredVersion; });
    if (party == nullptr || stored == party->events.end()) {
      continue;
    }
    StoredVersionFigures version = {stored->detail, std::nullopt};
    for (const EvaluationRow& row : party->evaluations) {
      if (row.split == "train") {
        version.train = row;
      }
    }
    for (LedgerRun& run : runs) {
      if (run.run_id() == party->record.run.resumed_from && run.label_party() != nullptr) {
        run.versions.push_back(version);
      }
    }
  }
}

}  // namespace

Json PartyRecords::Agreed(const std::string& path) const {
  const Json config = Json::parse(record.run.config_json, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer pointer("/agreement" + path);
  return config.is_object() && config.contains(pointer) ? config[pointer] : Json();
}

std::vector<std::string> PartyRecords::AgreedTexts(const std::string& path) const {
  std::vector<std::string> texts;
  const Json list = Agreed(path);
  for (size_t i = 0; list.is_array() && i < list.size(); ++i) {
    if (list[i].is_string()) {
      texts.push_back(list[i].get<std::string>());
    }
  }
  return texts;
}

int64_t PartyRecords::released_steps() const {
  int64_t released =
      std::count_if(protections.begin(), protections.end(), [](const ProtectionRow& row) { return IsReleased(row); });
  for (const StepSummaryRow& row : removed_steps) {
    released += IsReleased(row) ? row.steps : 0;
  }
  return released;
}

bool PartyRecords::released_nothing() const {
  // In a ledger with steps, or a whole run, without decisions something is missing.
  const bool is_whole = knows_decisions() || (!has_step() && record.status != "completed");
  return record.run.role == kLabelParty && is_whole && !has_event("disclosed") &&
         ReleasedGradients(record, events, DecisionsOf(protections, removed_steps)) == LabelRun::Released::kNothing;
}

bool PartyRecords::has_step() const {
  return !steps.empty() || !removed_steps.empty() || !step_times.empty() || !protections.empty() || !leaks.empty() ||
         !epoch_leaks.empty();
}

bool PartyRecords::knows_decisions() const {
  return !protections.empty() || std::any_of(removed_steps.begin(), removed_steps.end(),
                                             [](const StepSummaryRow& row) { return !row.method.empty(); });
}

std::string PartyRecords::missing_steps() const {
  int64_t last = -1;
  for (const StepSummaryRow& row : removed_steps) {
    last = std::max(last, row.last_step);
  }
  return last < 0 ? "" : absl::StrCat("of steps 1 to ", last + 1, " only a summary is read");
}

int64_t PartyRecords::last_released_epoch() const {
  int64_t last_step = -1, last_epoch = -1;
  for (const StepSummaryRow& row : removed_steps) {
    last_epoch = IsReleased(row) ? std::max(last_epoch, row.last_epoch) : last_epoch;
  }
  for (const ProtectionRow& row : protections) {
    // With a frozen bottom model the top model trains on: those epochs released nothing.
    last_step = IsReleased(row) ? row.step : last_step;
  }
  for (const StepRow& row : steps) {
    last_epoch = row.step <= last_step ? row.epoch : last_epoch;
  }
  return last_epoch;
}

const PartyRecords* LedgerRun::label_party() const {
  return parties.front().record.run.role == kLabelParty ? &parties.front() : nullptr;
}

const PartyRecords* LedgerRun::nonlabel_party() const {
  return parties.back().record.run.role == kLabelParty ? nullptr : &parties.back();
}

bool LedgerRun::only_predicts() const {
  return std::all_of(parties.begin(), parties.end(),
                     [](const PartyRecords& party) { return party.Agreed("/mode") == "PREDICT" && !party.has_step(); });
}

bool LedgerRun::is_baseline() const { return parties.front().Agreed("/cut_layer") == kLogisticCut; }

bool LedgerRun::released_nothing() const {
  const PartyRecords* const party = label_party();
  return only_predicts() || (party != nullptr && party->released_nothing());
}

std::string LedgerRun::protection() const {
  for (const PartyRecords& party : parties) {
    if (!party.record.run.protection.empty()) {
      return party.record.run.protection;
    }
  }
  return "";
}

std::string LedgerRun::activation_protection() const {
  std::string protection;
  if (const PartyRecords* party = nonlabel_party(); party != nullptr) {
    for (const EventRow& event : party->events) {
      if (event.kind == "activation_protection") {  // "pareto(...); 12 steps before anything was sent".
        protection = event.detail.substr(0, event.detail.find(';'));
      }
    }
  }
  return protection;
}

std::vector<const LeakSeries*> LedgerRun::leaks() const {
  std::vector<const LeakSeries*> all;
  for (const PartyRecords& party : parties) {
    for (const LeakSeries& series : party.leaks) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const LeakSeries* other) {
        return other->layer == series.layer && other->attack == series.attack && other->observer == series.observer;
      });
      if (!known) {
        all.push_back(&series);
      }
    }
  }
  const auto key = [](const LeakSeries* series) {
    return std::make_tuple(series->layer != "cut", series->layer, series->attack, series->observer != "nonlabel_party",
                           series->observer);
  };
  std::sort(all.begin(), all.end(), [&](const LeakSeries* a, const LeakSeries* b) { return key(a) < key(b); });
  return all;
}

absl::StatusOr<std::vector<LedgerRun>> ReadRuns(const std::vector<std::string>& ledger_paths) {
  if (ledger_paths.empty()) {
    return absl::InvalidArgumentError("ledgers: expected at least one, found none");
  }
  std::vector<LedgerRun> runs;
  for (const std::string& path : ledger_paths) {
    SPLITVEIL_ASSIGN_OR_RETURN(std::vector<PartyRecords> parties, ReadLedger(path));
    for (PartyRecords& party : parties) {
      SPLITVEIL_RETURN_IF_ERROR(AddParty(std::move(party), runs));
    }
  }
  const auto started_at = [](const LedgerRun& run) -> const std::string& {
    return run.parties.front().record.started_at;
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const LedgerRun& a, const LedgerRun& b) { return started_at(a) < started_at(b); });
  NameRuns(runs);
  AddVersions(runs);
  return runs;
}

}  // namespace splitveil
