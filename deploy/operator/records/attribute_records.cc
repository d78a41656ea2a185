#include "deploy/operator/records/attribute_records.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/attribute_leak.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct MethodWords {
  const char* method;
  const char* words;
};

constexpr MethodWords kMethods[] = {
    {"none", "The activations leave as the bottom model makes them"},
    {"gaussian", "Activations are clipped to a norm, and Gaussian noise is added to each"},
    {"linear",
     "The bottom model also lowers, with a fixed weight, how far the activations of the attribute's values lie "
     "apart; Gaussian noise is added"},
    {"adversarial", "The bottom model also learns to mislead a simulated adversary"},
    {"adversarial_label_flip", "The bottom model also learns to have a simulated adversary take the wrong value"},
    {"infocensor",
     "The bottom model also lowers a bound on the mutual information of activations and attribute, both "
     "taken for Gaussian; Gaussian noise is added"},
    {"pareto",
     "The bottom model is trained along the Pareto front of utility and privacy loss, and no batch whose privacy "
     "loss is above the threshold and its slack is sent; Gaussian noise is added"},
};

// The number behind "`name`=" in "pareto(threshold=0.005, slack=0.5)"; NaN where there is none.
double ParameterOf(absl::string_view protection, absl::string_view name) {
  const std::string key = absl::StrCat(name, "=");
  const size_t at = protection.find(key);
  if (at == absl::string_view::npos) {
    return kNone;
  }
  const absl::string_view from = protection.substr(at + key.size());
  double value = 0;
  return absl::SimpleAtod(from.substr(0, from.find_first_of(",) ")), &value) ? value : kNone;
}

bool ReadsTraining(const std::string& attack) {
  const auto known = AttributeAttackOfName(attack);
  return known.has_value() && TraitsOf(*known).reads_training();
}

std::string Releases(const ActivationBoundRow& bound) {
  return absl::StrCat(bound.releases, bound.releases == 1 ? " release" : " releases");
}

}  // namespace

std::vector<const AttributeFigure*> AttributeRecords::strongest() const {
  std::vector<const AttributeFigure*> first;
  for (const AttributeFigure& figure : figures) {
    if (first.empty() || first.back()->leak.attribute != figure.leak.attribute) {
      first.push_back(&figure);
    }
  }
  return first;
}

std::vector<AttributeFigure> AttributeFigures(const std::vector<AttributeLeakRow>& rows) {
  const auto place = [](const AttributeLeakRow& row) { return std::tie(row.attribute, row.attack, row.examples); };
  std::vector<AttributeFigure> figures;
  for (const AttributeLeakRow& row : rows) {  // By epoch within an attack at an attribute.
    if (row.rows == 0) {
      continue;
    }
    const auto known = std::find_if(figures.begin(), figures.end(),
                                    [&](const AttributeFigure& figure) { return place(figure.leak) == place(row); });
    if (known == figures.end()) {
      figures.push_back({row, ReadsTraining(row.attack)});
      // Attacks during training are as strong as their best epoch; at inference the last model counts.
    } else if (!known->is_highest || row.accuracy > known->leak.accuracy) {
      known->leak = row;
    }
  }
  std::stable_sort(figures.begin(), figures.end(), [](const AttributeFigure& a, const AttributeFigure& b) {
    return std::make_tuple(a.leak.attribute, -a.leak.advantage()) <
           std::make_tuple(b.leak.attribute, -b.leak.advantage());
  });
  return figures;
}

std::optional<AttributeRecords> AttributeRecordsOf(const LedgerRun& run) {
  const PartyRecords* party = run.nonlabel_party();
  if (party == nullptr) {
    return std::nullopt;
  }
  AttributeRecords records;
  const std::string protection = run.activation_protection();
  records.protection = protection.empty() ? "none" : protection;
  records.figures = AttributeFigures(party->attribute_leaks);
  records.bound = party->activation_bound;
  records.threshold = ParameterOf(records.protection, "threshold");
  records.slack = ParameterOf(records.protection, "slack");
  for (const PrivacyLossRow& row : party->privacy_losses) {
    records.largest_privacy_loss =
        std::fmax(records.largest_privacy_loss, row.privacy_loss);  // The one that is a number.
  }
  return records;
}

std::string DescribeWhen(const AttributeFigure& figure) {
  return absl::StrCat(figure.is_highest ? "highest over training, in epoch " : "inference, after epoch ",
                      figure.leak.epoch + 1);
}

std::string DescribeActivationProtection(absl::string_view protection) {
  const absl::string_view method = protection.substr(0, protection.find('('));
  for (const MethodWords& words : kMethods) {
    if (method == words.method) {
      return method == protection ? absl::StrCat(words.words, ".") : absl::StrCat(words.words, ": ", protection, ".");
    }
  }
  return absl::StrCat("The activations are protected by ", protection, ".");
}

std::string ProvedOfActivations(const AttributeRecords& records) {
  if (records.bound.has_value()) {
    return absl::StrFormat(
        "Proved: of this run alone, %s of an example's activations are %.3f-GDP, whatever the attribute; nobody tells "
        "its values apart with an AUC above %.3f from these. Further runs on the same examples, predictions among "
        "them, "
        "add to it and are not counted here; nor is what the bottom model has learnt from an example and shows in the "
        "activations of others.",
        Releases(*records.bound), records.bound->mu, records.bound->auc_bound);
  }
  return records.is_protected() ? "Measured only: a heuristic, which proves nothing; a stronger attack may read more."
                                : "Measured only: nothing protects the activations.";
}

std::vector<std::string> AttributeLines(const AttributeRecords& records) {
  std::vector<std::string> lines;
  if (!records.has_any()) {
    return lines;
  }
  lines.push_back(
      records.bound.has_value()
          ? absl::StrFormat(
                "attributes: guaranteed, of this run alone, AUC at most %.3f for any attribute over %s of an example's "
                "activations",
                records.bound->auc_bound, Releases(*records.bound))
          : absl::StrCat("attributes: measured only, ",
                         records.is_protected() ? absl::StrCat("a heuristic: ", records.protection) : "not protected"));
  for (const AttributeFigure* figure : records.strongest()) {
    const AttributeLeakRow& leak = figure->leak;
    lines.push_back(absl::StrFormat(
        "attribute %s, the strongest attack measured: %s, accuracy %.3f (95%% interval %.3f to %.3f), floor %.3f, AUC "
        "%.3f; %s examples, %s",
        leak.attribute, AttributeAttackNamed(leak.attack), leak.accuracy, leak.accuracy_low, leak.accuracy_high,
        leak.floor, InvertedAuc(leak.auc), leak.examples, DescribeWhen(*figure)));
  }
  return lines;
}

}  // namespace splitveil
