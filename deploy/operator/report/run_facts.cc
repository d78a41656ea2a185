#include "deploy/operator/report/run_facts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

#include "common/ledger/gate_action.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

// "release 412 · warn 3".
template <typename Rows, typename NameOf>
std::string Counts(const Rows& rows, NameOf name_of) {
  std::map<std::string, int64_t> counts;
  for (const auto& row : rows) {
    ++counts[name_of(row)];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : " · ", name, " ", count);
  }
  return text;
}

std::string Bytes(int64_t bytes) {
  if (bytes < 1000) {
    return absl::StrCat(bytes, " B");
  }
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB"}) {
    if (value < 1000) {
      break;
    }
    value /= 1000;
    unit = next;
  }
  return absl::StrFormat("%.3g %s", value, unit);
}

// Every leaf of a configuration whose path speaks of a version.
void CollectVersions(const Json& node, const std::string& path, std::vector<Fact>& facts) {
  if (node.is_object()) {
    for (const auto& [key, child] : node.items()) {
      CollectVersions(child, path.empty() ? key : absl::StrCat(path, ".", key), facts);
    }
  } else if (absl::StrContains(path, "version") && (node.is_string() || node.is_number())) {
    const std::string name = absl::StrReplaceAll(path, {{"versions.", ""}});
    facts.push_back({name == "version" ? "Version" : absl::StrCat("Version of ", name),
                     node.is_string() ? node.get<std::string>() : node.dump()});
  }
}

std::string Duration(const RunRecord& record) {
  absl::Time started, finished;
  std::string ignored;
  if (!absl::ParseTime(absl::RFC3339_full, record.started_at, &started, &ignored) ||
      !absl::ParseTime(absl::RFC3339_full, record.finished_at, &finished, &ignored)) {
    return "";
  }
  return absl::FormatDuration(absl::Trunc(finished - started, absl::Milliseconds(1)));
}

}  // namespace

std::vector<Fact> RunFacts(const PartyRecords& party) {
  const RunRecord& record = party.record;
  int64_t examples = 0, sent = 0, received = 0, epochs = 0;
  double seconds = 0;
  for (const StepRow& row : party.steps) {
    examples += row.examples;
    sent += row.bytes_sent;
    received += row.bytes_received;
    epochs = std::max(epochs, row.epoch + 1);
    seconds += std::isfinite(row.seconds) ? row.seconds : 0;
  }
  std::vector<Fact> facts;
  const auto add = [&facts](const char* name, std::string value) {
    if (!value.empty()) {
      facts.push_back({name, std::move(value)});
    }
  };
  add("Ledger", party.ledger_name);
  add("Protection", record.run.protection);
  add("Continues run", record.run.resumed_from);
  add("Status", record.finished_at.empty() ? record.status + " (or ended without a word)" : record.status);
  add("Started", record.started_at);
  add("Finished", record.finished_at);
  add("Duration", Duration(record));
  add("Agreement SHA-256", record.run.agreement_sha256);
  add("Steps", absl::StrCat(party.steps.size(), " in ", epochs, epochs == 1 ? " epoch" : " epochs"));
  add("Examples trained", absl::StrCat(examples));
  add("Training speed",
      seconds > 0 ? absl::StrFormat("%.0f examples/s", static_cast<double>(examples) / seconds) : std::string());
  add("Sent", Bytes(sent));
  add("Received", Bytes(received));
  add("Release gate", Counts(party.protections, [](const ProtectionRow& row) { return GateActionName(row.gate); }));
  add("Protection applied", Counts(party.protections, [](const ProtectionRow& row) { return row.method; }));
  CollectVersions(Json::parse(record.run.config_json, nullptr, /*allow_exceptions=*/false), "", facts);
  return facts;
}

}  // namespace splitveil
