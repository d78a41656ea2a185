#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/records/attribute_records.h"
#include "deploy/operator/report/report_sections.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

Json FigureJson(const AttributeFigure& figure) {
  const AttributeLeakRow& leak = figure.leak;
  return {{"attribute", leak.attribute},
          {"attack", leak.attack},
          {"title", AttributeAttackTitle(leak.attack)},
          {"examples", leak.examples},
          {"rows", leak.rows},
          {"accuracy",
           Json::array({NumberJson(leak.accuracy), NumberJson(leak.accuracy_low), NumberJson(leak.accuracy_high)})},
          {"floor", NumberJson(leak.floor)},
          {"advantage", NumberJson(leak.advantage())},
          {"auc", NumberJson(InvertedAuc(leak.auc))},
          // By the interval, since a chance of one in forty would call every other run a leak.
          {"above_floor", leak.accuracy_low > leak.floor},
          {"when", DescribeWhen(figure)}};
}

// Of one attribute over the steps: the privacy loss of what left, and the steps at the front and with corrections.
Json LossJson(const std::string& attribute, const std::vector<PrivacyLossRow>& rows) {
  int64_t at_front = 0, corrected = 0, corrections = 0;
  double largest = std::nan("");
  Json marks = Json::array();
  for (const PrivacyLossRow& row : rows) {
    at_front += row.at_front ? 1 : 0;
    corrected += row.correction_steps > 0 ? 1 : 0;
    corrections += row.correction_steps;
    largest = std::fmax(largest, row.privacy_loss);
    if (row.correction_steps > 0) {
      marks.push_back(Json::array({row.step, NumberJson(row.privacy_loss)}));
    }
  }
  constexpr size_t kMaxMarks = 200;  // More tell no more on a chart; the first of a run are as good as any.
  if (marks.size() > kMaxMarks) {
    marks.erase(marks.begin() + kMaxMarks, marks.end());
  }
  return {{"attribute", attribute},         {"curve", FieldCurve(rows, &PrivacyLossRow::privacy_loss)},
          {"largest", NumberJson(largest)}, {"steps", rows.size()},
          {"at_front", at_front},           {"corrected", corrected},
          {"corrections", corrections},     {"marks", std::move(marks)}};
}

// "1,040 steps: 700 along the Pareto front, 340 toward it; 12 batches were corrected before they left, by 31 steps on
// the privacy loss alone."
std::string LossWords(const AttributeRecords& records, const std::vector<PrivacyLossRow>& rows) {
  int64_t at_front = 0, corrected = 0, corrections = 0;
  for (const PrivacyLossRow& row : rows) {
    at_front += row.at_front ? 1 : 0;
    corrected += row.correction_steps > 0 ? 1 : 0;
    corrections += row.correction_steps;
  }
  std::string words =
      absl::StrCat("Over ", rows.size(), " steps the largest privacy loss of a training batch that left was ",
                   absl::StrFormat("%.4g", records.largest_privacy_loss), " nats");
  if (!std::isfinite(records.threshold)) {
    return absl::StrCat(words, ". This method has no threshold.");
  }
  absl::StrAppendFormat(&words, "; the threshold is %.4g, with its slack %.4g. ", records.threshold,
                        records.threshold * (1 + records.slack));
  absl::StrAppend(&words, at_front, " steps went along the Pareto front, ",
                  static_cast<int64_t>(rows.size()) - at_front, " toward it; ", corrected,
                  corrected == 1 ? " batch was" : " batches were", " corrected before leaving, by ", corrections,
                  corrections == 1 ? " step" : " steps", " on the privacy loss alone.");
  return words;
}

}  // namespace

Json AttributesJson(const LedgerRun& run) {
  const std::optional<AttributeRecords> records = AttributeRecordsOf(run);
  if (!records.has_value() || !records->has_any()) {
    return Json();
  }
  Json figures = Json::array(), strongest = Json::array(), losses = Json::array();
  for (const AttributeFigure& figure : records->figures) {
    figures.push_back(FigureJson(figure));
  }
  for (const AttributeFigure* figure : records->strongest()) {
    strongest.push_back(FigureJson(*figure));
  }
  std::map<std::string, std::vector<PrivacyLossRow>> by_attribute;
  for (const PrivacyLossRow& row : run.nonlabel_party()->privacy_losses) {
    by_attribute[row.attribute].push_back(row);
  }
  for (const auto& [attribute, rows] : by_attribute) {
    losses.push_back(LossJson(attribute, rows));
  }
  const double limit = records->threshold * (1 + records->slack);
  return {{"protection_words", DescribeActivationProtection(records->protection)},
          {"proved_words", ProvedOfActivations(*records)},
          {"proved", records->bound.has_value()},
          {"auc_bound", records->bound.has_value() ? NumberJson(records->bound->auc_bound) : Json()},
          {"protected", records->is_protected()},
          {"strongest", std::move(strongest)},
          {"figures", std::move(figures)},
          {"threshold", NumberJson(records->threshold)},
          {"limit", NumberJson(limit)},
          {"loss_words", by_attribute.empty() ? "" : LossWords(*records, by_attribute.begin()->second)},
          {"losses", std::move(losses)}};
}

Json AttributeGlossaryJson(const std::vector<LedgerRun>& runs) {
  std::map<std::string, std::string> attacks;
  for (const LedgerRun& run : runs) {
    for (const AttributeFigure& figure : AttributeRecordsOf(run).value_or(AttributeRecords()).figures) {
      attacks[figure.leak.attack] = AttributeAttackExplanation(figure.leak.attack);
    }
  }
  Json glossary = Json::array();
  for (const auto& [attack, explanation] : attacks) {
    glossary.push_back({{"attack", attack}, {"title", AttributeAttackTitle(attack)}, {"explanation", explanation}});
  }
  return glossary;
}

}  // namespace splitveil
