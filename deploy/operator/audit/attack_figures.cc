#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/audit/criteria.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/leakage/attack_traits.h"

namespace splitveil {
namespace {

using Json = nlohmann::json;

AttackTraits TraitsOfName(const std::string& attack) {
  return TraitsOf(AttackOfName(attack).value_or(v1::ATTACK_UNSPECIFIED).attack);
}

bool HasBatches(const std::string& attack) {
  const AttackTraits traits = TraitsOfName(attack);
  return traits.occasion == AttackOccasion::kEachBatch;
}

// The attacks at the layers that the run's agreement names, and model completion where labels are given for it, without
// a figure.
std::vector<LimitedFigure> AgreedAttacks(const PartyRecords& party) {
  const Json config = Json::parse(party.record.run.config_json, nullptr, /*allow_exceptions=*/false);
  const Json nothing = Json::array();
  const auto list = [&](const char* name) -> const Json& {
    const Json::json_pointer path(absl::StrCat("/agreement/audit/", name));
    return config.is_object() && config.contains(path) && config[path].is_array() ? config[path] : nothing;
  };
  std::vector<int> hint_counts;
  for (const Json& hint_count : list("hint_counts")) {
    if (hint_count.is_number_integer()) {
      hint_counts.push_back(hint_count.get<int>());
    }
  }
  std::vector<LimitedFigure> agreed;
  for (const Json& layer : list("layers")) {
    for (const Json& attack : list("attacks")) {
      if (!layer.is_string() || !attack.is_string()) {
        continue;
      }
      const std::string name = absl::AsciiStrToLower(attack.get<std::string>());
      const std::optional<AttackVariant> known = AttackOfName(name);
      if (!known.has_value()) {  // Named by a newer build: it was agreed, and no figure of it is known.
        agreed.push_back({layer.get<std::string>(), name, "", std::nan("")});
        continue;
      }
      // An attack that needs the cut gradient itself cannot run at another layer: it is not missing there.
      if (!TraitsOf(known->attack).cut_only() || layer == "cut") {
        // A name that says its own number of hints stands for that one alone.
        const std::vector<int> counts =
            known->hint_count > 0 ? std::vector<int>{known->hint_count} : HintCounts(hint_counts);
        for (const AttackVariant& variant : VariantsOf(known->attack, counts)) {
          agreed.push_back({layer.get<std::string>(), AttackName(variant), "", std::nan("")});
        }
      }
    }
  }
  // Labels were given for it: a peer that takes them and submits no scores is not to pass.
  const Json::json_pointer labels("/agreement/audit/auxiliary_labels");
  if (config.is_object() && config.contains(labels) && config[labels].is_number() && config[labels] > 0) {
    agreed.push_back({"cut", AttackName(v1::MODEL_COMPLETION), "", std::nan("")});
  }
  return agreed;
}

}  // namespace

std::string AgainstLimit(double value, double limit) {
  return std::abs(value - limit) < 0.0005 && value != limit ? absl::StrFormat("%.6f", value)
                                                            : absl::StrFormat("%.3f", value);
}

std::string DescribePlace(const LimitedFigure& figure) {
  std::string place = absl::StrCat(AttackNamed(figure.attack), " at ", DescribeLayer(figure.layer));
  if (figure.observer == "label_party") {
    absl::StrAppend(&place, ", scored by the label party");
  } else if (figure.observer == "nonlabel_party") {
    absl::StrAppend(&place, ", scored by the attack module");
  } else if (!figure.observer.empty()) {
    absl::StrAppend(&place, ", scored by ", figure.observer);
  }
  if (figure.epoch >= 0) {
    absl::StrAppend(&place, ", after epoch ", figure.epoch + 1);
  }
  return place;
}

std::vector<LimitedFigure> WithAgreedAttacks(std::vector<LimitedFigure> figures, const PartyRecords& party,
                                             bool batches_only) {
  for (LimitedFigure& agreed : AgreedAttacks(party)) {
    const bool known = std::any_of(figures.begin(), figures.end(), [&](const LimitedFigure& figure) {
      return figure.layer == agreed.layer && figure.attack == agreed.attack;
    });
    if (!known && (!batches_only || HasBatches(agreed.attack))) {
      figures.push_back(std::move(agreed));
    }
  }
  return figures;
}

std::vector<LimitedFigure> FiguresOverBatches(const PartyRecords& party, double LeakSummary::*field) {
  std::vector<LimitedFigure> figures;
  for (const LeakSeries& series : party.leaks) {
    const double auc = series.summary.steps > 0 ? series.summary.*field : std::nan("");
    figures.push_back({series.layer, series.attack, series.observer, auc});
    if (field == &LeakSummary::p95) {  // The only one that a summary of removed steps does not hold.
      figures.back().at_least = series.p95_at_least;
    }
  }
  return WithAgreedAttacks(std::move(figures), party, /*batches_only=*/true);
}

std::vector<LimitedFigure> AuditedShares(const PartyRecords& party) {
  const auto released = static_cast<double>(party.released_steps());
  std::vector<LimitedFigure> shares;
  for (const LeakSeries& series : party.leaks) {
    const double share = released > 0 ? static_cast<double>(series.summary.steps) / released : std::nan("");
    shares.push_back({series.layer, series.attack, series.observer, share});
  }
  return WithAgreedAttacks(std::move(shares), party, /*batches_only=*/true);
}

std::vector<LimitedFigure> FiguresAfterLastEpoch(const PartyRecords& party, const EpochFigure& value,
                                                 const EpochFigure& measured) {
  std::vector<LimitedFigure> figures;
  const int64_t last_epoch = party.last_released_epoch();
  const auto key = [](const LimitedFigure& figure) { return std::tie(figure.layer, figure.attack, figure.observer); };
  for (const EpochLeakRow& row : party.epoch_leaks) {  // By layer, attack, observer and epoch.
    // An attack that missed the last epochs says nothing about the gradients released in them.
    const bool is_last = row.epoch >= last_epoch || TraitsOfName(row.attack).once_per_run();
    LimitedFigure figure = {row.layer, row.attack, row.observer, is_last ? value(row) : std::nan(""), row.epoch};
    if (measured) {
      figure.measured = measured(row);
    }
    // A later epoch of the same attack and observer replaces the earlier one.
    if (!figures.empty() && key(figures.back()) == key(figure)) {
      figures.pop_back();
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace splitveil
