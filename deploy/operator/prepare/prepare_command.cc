#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/drift/drift_table.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/preparation/table_schema.h"
#include "deploy/operator/profile/profile_report.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/dataset/column_encoding.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {
namespace {

// A range this many times that of all but 2% of the rows leaves these a twentieth of [0, 1] or less.
constexpr double kPressedTogether = 20;

std::string Percent(int64_t count, const v1::Preprocessing& preprocessing) {
  return absl::StrFormat("%.1f%%", 100.0 * static_cast<double>(count) / static_cast<double>(preprocessing.rows()));
}

// Of names of any length; at least as wide as `head`.
template <typename Columns>
int NameWidth(const Columns& columns, const char* head) {
  size_t width = std::string(head).size();
  for (const auto& column : columns) {
    width = std::max(width, OneLine(column.name()).size());
  }
  return static_cast<int>(width);
}

std::string Figure(bool known, double number) { return known ? absl::StrFormat("%.5g", number) : "-"; }

std::string Pressed(const v1::NumericScaling& column) {
  const double inner = column.upper_quantile() / 2 - column.lower_quantile() / 2;
  const double scaled = column.maximum() / 2 - column.minimum() / 2;
  const bool linear = column.knots().empty() && !column.has_midpoint();
  if (!linear || !column.has_least() || inner <= 0 || scaled < kPressedTogether * inner) {
    return "";
  }
  return absl::StrFormat(
      "  %s: 98%% of the rows lie in %.2g%% of the range it is scaled from; scaling: ROBUST in the schema "
      "(--scaling=robust) clips the few that lie far out\n",
      OneLine(column.name()), 100 * inner / scaled);
}

// One aligned line for each numeric column: share of the rows in which it is missing, least, quantiles and greatest of
// the training part, the range it is scaled from, and the share of the rows that lie outside and were clipped; then a
// line for each column of which a few values far out press all others together. "" if there is none.
std::string NumericTable(const v1::Preprocessing& preprocessing) {
  if (preprocessing.numeric().empty()) {
    return "";
  }
  const int width = NameWidth(preprocessing.numeric(), "numeric");
  std::string text = absl::StrFormat("  %-*s %8s %11s %11s %11s %11s %11s %11s %11s %8s\n", width, "numeric", "missing",
                                     "least", "1%", "median", "99%", "greatest", "scaled from", "to", "clipped");
  std::string pressed, indicators, logarithms, ranks;
  for (const v1::NumericScaling& column : preprocessing.numeric()) {
    if (IsMissingIndicator(column)) {
      absl::StrAppend(&indicators, indicators.empty() ? "  further inputs, 1 where a number is missing: \"" : "\", \"",
                      OneLine(column.name()));
      continue;
    }
    const bool known = column.has_least();
    absl::StrAppendFormat(
        &text, "  %-*s %8s %11s %11s %11s %11s %11s %11s %11s %8s\n", width, OneLine(column.name()),
        Percent(column.missing(), preprocessing), Figure(known, column.least()), Figure(known, column.lower_quantile()),
        Figure(known, column.median()), Figure(known, column.upper_quantile()), Figure(known, column.greatest()),
        Figure(true, column.minimum()), Figure(true, column.maximum()), Percent(column.clipped(), preprocessing));
    absl::StrAppend(&pressed, Pressed(column));
    for (const auto& [kind, names] :
         {std::pair(v1::TableSchema::LOG, &logarithms), {v1::TableSchema::QUANTILE, &ranks}}) {
      if (column.scaling() == kind) {
        absl::StrAppend(names, names->empty() ? "" : ", ", "\"", OneLine(column.name()), "\"");
      }
    }
  }
  return absl::StrCat(text, indicators, indicators.empty() ? "" : "\"\n", pressed,
                      logarithms.empty() ? "" : absl::StrCat("  scaled as logarithms: ", logarithms, "\n"),
                      ranks.empty() ? "" : absl::StrCat("  scaled as ranks: ", ranks, "\n"));
}

// The same for each categorical column: share missing, and rows of the embedding table, with a line for the sum. ""
// if there is none.
std::string CategoricalTable(const v1::Preprocessing& preprocessing) {
  if (preprocessing.categorical().empty()) {
    return "";
  }
  const int width = NameWidth(preprocessing.categorical(), "categorical");
  std::string text = absl::StrFormat("  %-*s %8s %14s\n", width, "categorical", "missing", "embedding rows");
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    int64_t rows = 0;
    for (const v1::CategoryIndex::Block& block : column.blocks()) {
      rows += block.rows();
    }
    absl::StrAppendFormat(&text, "  %-*s %8s %14d\n", width, OneLine(column.name()),
                          Percent(column.missing(), preprocessing), rows);
  }
  absl::StrAppend(&text, "  embedding rows: ", preprocessing.embedding_rows());
  if (preprocessing.has_extends_sha256()) {
    absl::StrAppend(&text, ", ", preprocessing.embedding_rows() - preprocessing.extended_embedding_rows(),
                    " of them new");
  }
  return text + "\n";
}

struct PrepareFlags {
  std::string format;
  std::string schema;
  std::string party = "both";
  std::string scaling;
  std::string profile;
  std::vector<std::string> allowed_changes;
  PrepareOptions options;  // All but the schema and the parties.
};

absl::StatusOr<v1::TableSchema> SchemaOf(const PrepareFlags& flags) {
  if (flags.format != "table") {
    if (!flags.schema.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("command line: --schema: has no effect with --format=", flags.format, ": remove it"));
    }
    return flags.format == "criteo" ? CriteoSchema() : AvazuSchema();
  }
  if (flags.schema.empty()) {
    return absl::InvalidArgumentError("command line: --schema: --format=table needs the schema of the table: set it");
  }
  v1::TableSchema schema;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(flags.schema, schema));
  return schema;
}

v1::TableSchema::Holder PartiesOf(const std::string& party) {
  if (party == "both") {
    return v1::TableSchema::BOTH;
  }
  return party == "label_party" ? v1::TableSchema::LABEL_PARTY : v1::TableSchema::NONLABEL_PARTY;
}

void PrintColumns(const v1::Preprocessing& preprocessing) {
  for (const v1::AttributeValues& attribute : preprocessing.attributes()) {
    std::printf("  attribute %s: %d values, missing in %lld rows\n", OneLine(attribute.name()).c_str(),
                attribute.values_size(), static_cast<long long>(attribute.missing()));
  }
  std::printf("%s%s", NumericTable(preprocessing).c_str(), CategoricalTable(preprocessing).c_str());
}

// What else both must have for the parties to come to the same split.
void PrintSplit(const v1::Preprocessing& preprocessing) {
  if (preprocessing.split_by_group()) {
    std::printf("split by group: the run agreement needs split_by_group: true, and the other table the same groups\n");
  } else if (!preprocessing.test_after().empty()) {
    std::printf("split by time: the run agreement needs test_after: \"%s\", and the other table the same times\n",
                preprocessing.test_after().c_str());
  }
}

// What is predicted, at the terminal of the party that has the labels.
void PrintLabels(const PrepareResult& result) {
  const auto rows = static_cast<double>(result.rows);
  const v1::Preprocessing& label_party = result.parties.front().preprocessing;
  if (!result.class_rows.empty()) {
    std::printf(", by class:");
    for (size_t label = 0; label < result.class_rows.size(); ++label) {
      std::printf("%s %s %lld", label == 0 ? "" : ",", OneLine(label_party.classes(static_cast<int>(label))).c_str(),
                  static_cast<long long>(result.class_rows[label]));
    }
  } else if (label_party.has_target()) {
    std::printf(", mean target %g, %.2f%% of the targets clipped to [%g, %g]", result.target_mean,
                100.0 * static_cast<double>(result.clipped_targets) / rows, label_party.target().minimum(),
                label_party.target().maximum());
  } else {
    std::printf(", %.2f%% positive", 100.0 * static_cast<double>(result.positives) / rows);
  }
}

void PrintResult(const PrepareOptions& options, const PrepareResult& result) {
  std::string inputs = options.rows.input_paths.front();
  for (size_t i = 1; i < options.rows.input_paths.size(); ++i) {
    absl::StrAppend(&inputs, ", ", options.rows.input_paths[i]);
  }
  std::printf(
      "%s: %lld rows%s", inputs.c_str(), static_cast<long long>(result.rows),
      result.files > options.rows.input_paths.size() ? absl::StrCat(" in ", result.files, " files").c_str() : "");
  if (options.parties != v1::TableSchema::NONLABEL_PARTY) {
    PrintLabels(result);
  }
  std::printf("\n");
  std::printf("%s", LeftOutText(result.skipped, result.files).c_str());
  for (const PreparedParty& party : result.parties) {
    std::printf("%s: %lld rows, %lld of them for training, %lld for validation, %lld for testing\n", party.path.c_str(),
                static_cast<long long>(party.preprocessing.rows()),
                static_cast<long long>(party.preprocessing.training_rows()),
                static_cast<long long>(party.validation_rows), static_cast<long long>(party.test_rows));
    if (!options.test_after.empty() && party.test_rows == 0) {
      std::printf("  WARNING: no row is from test_after \"%s\" on: nothing is left for testing\n",
                  options.test_after.c_str());
    }
    if (party.replaced_others) {
      std::printf(
          "  NOTE: replaced other data; a model that was trained on those needs their scales and vocabularies "
          "(--keep leaves them, --extend takes them over)\n");
    }
    PrintColumns(party.preprocessing);
    std::printf("%s%s", DriftText(CompareColumns(party.preprocessing)).c_str(),
                ReadingWarnings(party.preprocessing).c_str());
  }
  PrintSplit(result.parties.front().preprocessing);
  if (result.parties.size() > 1) {
    std::printf("held by both: %lld rows\n", static_cast<long long>(result.common_rows));
  }
}

// An error about the schema names its file.
absl::Status InSchema(const std::string& schema, const absl::Status& status) {
  absl::string_view message = status.message();
  return !schema.empty() && absl::ConsumePrefix(&message, "table schema: ")
             ? absl::Status(status.code(), absl::StrCat(schema, ": ", message))
             : status;
}

absl::StatusOr<ExitCode> Prepare(const PrepareFlags& flags) {
  PrepareOptions options = flags.options;
  SPLITVEIL_RETURN_IF_ERROR(CheckProfilePath(flags.profile));
  SPLITVEIL_ASSIGN_OR_RETURN(options.rows.schema, SchemaOf(flags));
  options.parties = PartiesOf(flags.party);
  // SCALING_UNSPECIFIED without the flag.
  v1::TableSchema::Scaling_Parse(absl::AsciiStrToUpper(flags.scaling), &options.scaling);
  TableProfile profile = EmptyProfile(options.rows.schema);
  options.rows.profile = &profile;
  if (!flags.allowed_changes.empty()) {
    options.rows.allowed_changes = flags.allowed_changes;
  }
  const absl::StatusOr<PrepareResult> result = splitveil::Prepare(options);
  const std::vector<std::string> warnings = ProfileWarnings(options.rows.schema, profile);
  const ProfileReport report = {options.rows.input_paths.front(), options.rows.schema, profile, warnings};
  // After an error of --strict, too: it shows what the error is about.
  if (!flags.profile.empty() && (result.ok() || (options.strict && !warnings.empty()))) {
    SPLITVEIL_RETURN_IF_ERROR(WriteProfile(flags.profile, report));
  }
  SPLITVEIL_RETURN_IF_ERROR(InSchema(flags.schema, result.status()));
  std::printf("%s", ProfileText(report).c_str());
  PrintResult(options, *result);
  return ExitCode::kDone;
}

void AddTableFlags(PrepareFlags& flags, CLI::App& command) {
  AddValue(command, "--format=FORMAT", flags.format, "Format of the input; table: any table that --schema describes.")
      ->check(OneOf({"criteo", "avazu", "table"}))
      ->required();
  AddValue(command, "--schema=FILE", flags.schema,
           "Meaning of the columns of a table, among them a LABEL, CLASS_LABEL or TARGET: a TableSchema of "
           "proto/splitveil/v1/table_schema.proto.");
  AddValue(
      command, "--input=FILE", flags.options.rows.input_paths,
      "File of the table, plain or .gz, .zst or .xz; a folder or a pattern of files with one header line each; or -, "
      "standard input. Repeat it for several.")
      ->required();
  AddValue(command, "--images=PATH", flags.options.rows.images_path,
           "For a schema with images: the folder of their files, or one array file with all of them.");
  AddValue(command, "--image_size=N", flags.options.rows.image_size,
           "Resize images to this many pixels in height and width; 0 keeps their size.")
      ->check(IntegerIn(0, 4096));
  command.add_flag("--skip_bad_rows", flags.options.rows.skip_bad_rows,
                   "Skip and count unusable rows instead of stopping at the first.");
  AddValue(command, "--profile=FILE", flags.profile,
           "File for the profile of the table's columns: a page if its name ends with .html, else JSON.");
  command.add_flag("--strict", flags.options.strict,
                   "Fail where numbers seem to stand for an unknown value, such as -999999, instead of warning.");
  AddValue(command, "--min_usable_share=SHARE", flags.options.min_usable_share,
           "With --skip_bad_rows: minimum share of usable rows.")
      ->check(NumberIn(0, 1));
  AddValue(command, "--rows=N", flags.options.expected_rows,
           "Number of rows the table should have. --min_usable_share is then measured against it, so a truncated file "
           "is accepted if enough rows are usable.")
      ->default_str("not known")
      ->check(IntegerIn(1));
}

void AddEncodingFlags(PrepareFlags& flags, CLI::App& command) {
  AddValue(command, "--out=DIR", flags.options.out_dir, "Folder for label_party.data and nonlabel_party.data.")
      ->required();
  command.add_flag(
      "--keep", flags.options.keeps_other_data,
      "Fail if --out has different data. By default they are replaced, and a model trained on them becomes unusable. "
      "Data of --extend are never replaced.");
  AddValue(command, "--test_fraction=SHARE", flags.options.test_fraction,
           "As in the run agreement; vocabularies and scales are fitted on the training part.")
      ->check(NumberIn(0, kMaxPartFraction));
  AddValue(command, "--auxiliary_fraction=SHARE", flags.options.auxiliary_fraction,
           "As in the run agreement's attribute_audit; nothing is fitted on these rows.")
      ->check(NumberIn(0, kMaxPartFraction));
  AddValue(command, "--validation_fraction=SHARE", flags.options.validation_fraction,
           "As in the run agreement: share of rows that choose the best epoch; nothing is fitted on them.")
      ->check(NumberIn(0, kMaxPartFraction));
  AddValue(command, "--test_after=TIME", flags.options.test_after,
           "As in the run agreement, for a table with a column of kind TIME: rows from then on are for testing, "
           "instead of --test_fraction.");
  AddValue(command, "--split_salt=TEXT", flags.options.split_salt, "As in the run agreement.");
  AddValue(command, "--hash_buckets=N", flags.options.hash_buckets,
           "Hash the categories of each column into this many buckets; 0 keeps vocabularies.")
      ->check(IntegerIn(0));
  AddValue(command, "--scaling=SCALING", flags.scaling,
           "How numbers are scaled to [0, 1]. robust: clips at the 1% and 99% quantiles; a missing number becomes the "
           "median, and an additional input marks it. quantile, log: the same, by rank and by logarithm. min_max: "
           "neither clips nor marks, as in the papers.")
      ->default_str("the schema's")
      ->check(OneOf({"robust", "quantile", "log", "min_max"}));
  AddValue(command, "--extend=DIR", flags.options.extend_dir,
           "Folder of earlier data; its vocabularies and scales are kept and extended, and its columns compared.");
  AddValue(command, "--allow_changed=COLUMN", flags.allowed_changes,
           "With --extend: column that may have only values that the earlier data lack.");
}

void AddSplitFlags(PrepareFlags& flags, CLI::App& command) {
  AddValue(command, "--party=PARTY", flags.party,
           "Whose table it is; both: one table, split between the parties by the holders in its schema.")
      ->check(OneOf({"both", "label_party", "nonlabel_party"}));
  AddValue(command, "--seed=N", flags.options.rows.seed,
           "When splitting: the same seed gives the same ids, shares and order.")
      ->check(IntegerIn(0));
  AddValue(command, "--only_label_fraction=SHARE", flags.options.only_label_fraction,
           "When splitting: share of the rows that only the label party gets.")
      ->check(NumberIn(0, 1));
  AddValue(command, "--only_nonlabel_fraction=SHARE", flags.options.only_nonlabel_fraction,
           "When splitting: share of the rows that only the non-label party gets.")
      ->check(NumberIn(0, 1));
}

}  // namespace

void AddPrepareCommand(CommandLine& line) {
  const auto flags = std::make_shared<PrepareFlags>();
  CLI::App& command =
      line.AddCommand({"prepare", "Encode a party's table for training, or split one table between both parties.",
                       "splitveil prepare --format=criteo --input=clicks.tsv --out=data", "Before a run"},
                      [flags] { return Prepare(*flags); });
  AddTableFlags(*flags, command);
  AddEncodingFlags(*flags, command);
  AddSplitFlags(*flags, command);
}

}  // namespace splitveil
