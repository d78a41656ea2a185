#include "deploy/operator/preparation/synthetic_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <google/protobuf/text_format.h>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/seeded_draws.h"
#include "deploy/operator/preparation/synthetic_criteo.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

constexpr int kNumeric = 8, kCategorical = 4;
constexpr int kFirstOwnNumeric = 5, kFirstOwnCategorical = 3;  // From here on the label party's.
constexpr uint64_t kNumbers = 101, kCategories = 8;
constexpr double kSlope = 1, kCategoryAmplitude = 0.8, kProductAmplitude = 1, kPairAmplitude = 0.8;

constexpr std::array<const char*, 5> kClasses = {"none", "card", "loan", "savings", "mortgage"};
constexpr std::array<double, kClasses.size()> kIntercepts = {0.8, 0.4, 0, -0.4, -0.8};
constexpr uint64_t kRegressionOutput = kClasses.size();  // Behind those of the classes.
constexpr double kLargestTarget = 100;

// Tables of fixed effects.
enum Effects : uint64_t { kNumericEffects = 100, kCategoryEffects, kProductEffects, kPairEffects };

// One row before it is text.
struct Row {
  std::array<uint64_t, kNumeric> numbers;
  std::array<uint64_t, kCategorical> categories;

  double x(int column) const { return static_cast<double>(numbers[column]) / 50 - 1; }
};

Row DrawRow(SeededDraws& draws) {
  Row row;
  for (uint64_t& number : row.numbers) {
    number = draws.Below(kNumbers);
  }
  for (uint64_t& category : row.categories) {
    category = draws.Below(kCategories);
  }
  return row;
}

double Score(const Row& row, uint64_t output) {
  double score = 0;
  for (int column = 0; column < kNumeric; ++column) {
    score += kSlope * FixedEffect(kNumericEffects, output, column) * row.x(column);
  }
  for (int column = 0; column < kCategorical; ++column) {
    const uint64_t value = static_cast<uint64_t>(column) * kCategories + row.categories[column];
    score += kCategoryAmplitude * FixedEffect(kCategoryEffects, output, value);
  }
  const uint64_t pair = row.categories[0] * kCategories + row.categories[kFirstOwnCategorical];
  return score + kProductAmplitude * FixedEffect(kProductEffects, output, 0) * row.x(0) * row.x(kFirstOwnNumeric) +
         kPairAmplitude * FixedEffect(kPairEffects, output, pair);
}

// Draws what is predicted of each row, and remembers what can be known of it.
class Outcomes {
 public:
  Outcomes(Task::Kind kind, SyntheticTableResult& result) : kind_(kind), result_(result) {
    if (kind_ == Task::Kind::kMultiClass) {
      probabilities_.resize(kClasses.size());
      result_.class_rows.resize(kClasses.size());
    }
  }

  std::string Draw(const Row& row, SeededDraws& draws) {
    return kind_ == Task::Kind::kMultiClass ? DrawClass(row, draws) : DrawTarget(row, draws);
  }

  // Completes the result.
  void Finish() {
    if (kind_ == Task::Kind::kMultiClass) {
      result_.bayes_macro_auc = BayesMacroAuc(probabilities_);
    } else {
      result_.bayes_r_squared = BayesRSquared(means_, variances_);
      result_.target_mean = target_sum_ / static_cast<double>(means_.size());
    }
  }

 private:
  std::string DrawClass(const Row& row, SeededDraws& draws) {
    std::array<double, kClasses.size()> weights;
    double sum = 0;
    for (size_t label = 0; label < weights.size(); ++label) {
      weights[label] = std::exp(kIntercepts[label] + Score(row, label));
      sum += weights[label];
    }
    double left = draws.Uniform() * sum;
    size_t drawn = 0;
    for (size_t label = 0; label < weights.size(); ++label) {
      probabilities_[label].push_back(weights[label] / sum);
    }
    for (; drawn + 1 < weights.size() && left >= weights[drawn]; ++drawn) {
      left -= weights[drawn];
    }
    ++result_.class_rows[drawn];
    return kClasses[drawn];
  }

  std::string DrawTarget(const Row& row, SeededDraws& draws) {
    const double mean = kLargestTarget / (1 + std::exp(-Score(row, kRegressionOutput)));
    const double reach = std::min(mean, kLargestTarget - mean);
    const double target = mean + reach * (2 * draws.Uniform() - 1);
    means_.push_back(mean);
    variances_.push_back(reach * reach / 3);
    target_sum_ += target;
    return absl::StrFormat("%.2f", target);
  }

  Task::Kind kind_;
  SyntheticTableResult& result_;
  std::vector<std::vector<double>> probabilities_;  // By class, [rows].
  std::vector<double> means_, variances_;           // [rows]
  double target_sum_ = 0;
};

void AddColumn(const std::string& name, Schema::Kind kind, Schema& schema) {
  Schema::Column& column = *schema.add_columns();
  column.set_name(name);
  column.set_kind(kind);
}

// One line per field.
std::string SchemaText(const Schema& schema) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  Schema rest = schema;
  rest.clear_columns();
  std::string text = "# Made by `splitveil generate`.\n", line;
  for (const Schema::Column& column : schema.columns()) {
    (void)printer.PrintToString(column, &line);
    absl::StrAppend(&text, "columns { ", line, "}\n");
  }
  (void)printer.PrintToString(rest, &line);
  absl::StrAppend(&text, line, "\n");
  return text;
}

}  // namespace

v1::TableSchema SyntheticTableSchema(Task::Kind kind) {
  Schema schema;
  schema.set_scaling(Schema::MIN_MAX);  // Nothing lies far out, and no number is missing.
  AddColumn("id", Schema::ID, schema);
  for (int column = 0; column < kNumeric; ++column) {
    AddColumn(absl::StrCat("n", column + 1), Schema::NUMERIC, schema);
    schema.mutable_columns()->rbegin()->set_holder(column < kFirstOwnNumeric ? Schema::NONLABEL_PARTY
                                                                             : Schema::LABEL_PARTY);
  }
  for (int column = 0; column < kCategorical; ++column) {
    AddColumn(absl::StrCat("c", column + 1), Schema::CATEGORICAL, schema);
    schema.mutable_columns()->rbegin()->set_holder(column < kFirstOwnCategorical ? Schema::NONLABEL_PARTY
                                                                                 : Schema::LABEL_PARTY);
  }
  if (kind == Task::Kind::kMultiClass) {
    AddColumn("product", Schema::CLASS_LABEL, schema);
    schema.mutable_classes()->Assign(kClasses.begin(), kClasses.end());
  } else {
    AddColumn("spend", Schema::TARGET, schema);
    schema.set_target_minimum(0);
    schema.set_target_maximum(kLargestTarget);
  }
  return schema;
}

absl::StatusOr<SyntheticTableResult> GenerateSyntheticTable(const SyntheticTableOptions& options) {
  if (options.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("rows: expected at least 1, found ", options.rows));
  }
  if (options.kind == Task::Kind::kBinary) {
    return absl::InvalidArgumentError("task: expected several classes or a regression, found two classes");
  }
  if (options.schema_path == options.path) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ": expected the schema in another file than the table, found the same"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<PendingFile> table, PendingFile::Create(options.path));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<PendingFile> schema_file, PendingFile::Create(options.schema_path));
  const Schema schema = SyntheticTableSchema(options.kind);
  SPLITVEIL_RETURN_IF_ERROR(schema_file->Append(SchemaText(schema)));
  std::string line;
  for (const Schema::Column& column : schema.columns()) {
    absl::StrAppend(&line, line.empty() ? "" : ",", column.name());
  }
  SPLITVEIL_RETURN_IF_ERROR(table->Append(absl::StrCat(line, "\n")));
  SyntheticTableResult result;
  Outcomes outcomes(options.kind, result);
  SeededDraws draws(options.seed, 0);
  for (; result.rows < options.rows; ++result.rows) {
    const Row row = DrawRow(draws);
    line = absl::StrCat(result.rows + 1);
    for (const uint64_t number : row.numbers) {
      absl::StrAppend(&line, ",", number);
    }
    for (const uint64_t category : row.categories) {
      absl::StrAppend(&line, ",", std::string(1, static_cast<char>('a' + category)));
    }
    absl::StrAppend(&line, ",", outcomes.Draw(row, draws), "\n");
    SPLITVEIL_RETURN_IF_ERROR(table->Append(line));
  }
  outcomes.Finish();
  SPLITVEIL_RETURN_IF_ERROR(PendingFile::Publish({table.get(), schema_file.get()}));
  return result;
}

double BayesMacroAuc(absl::Span<const std::vector<double>> probabilities) {
  double sum = 0;
  int64_t counted = 0;
  for (const std::vector<double>& of_class : probabilities) {
    if (const double auc = BayesAuc(of_class); !std::isnan(auc)) {
      sum += auc;
      ++counted;
    }
  }
  return counted > 0 ? sum / static_cast<double>(counted) : std::numeric_limits<double>::quiet_NaN();
}

double BayesRSquared(absl::Span<const double> means, absl::Span<const double> variances) {
  const auto rows = static_cast<double>(means.size());
  double mean = 0, noise = 0, spread = 0;
  for (size_t i = 0; i < means.size(); ++i) {
    mean += means[i] / rows;
    noise += variances[i];
  }
  for (const double own : means) {
    spread += (own - mean) * (own - mean);
  }
  const double total = spread + (1 - 1 / rows) * noise;
  return total > 0 ? 1 - noise / total : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace splitveil
