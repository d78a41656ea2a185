#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/preparation/synthetic_criteo.h"
#include "deploy/operator/preparation/synthetic_table.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

struct GenerateFlags {
  std::string task = "binary";
  std::string schema_path;
  bool force = false;
  SyntheticCriteoOptions options;
};

// Rows of a real click log look like generated ones, so what is there is replaced only if the user says so.
absl::Status CheckIsNew(const std::string& path, bool force) {
  std::error_code ignored;
  return force || !std::filesystem::exists(std::filesystem::symlink_status(path, ignored))
             ? absl::OkStatus()
             : absl::AlreadyExistsError(
                   absl::StrCat(path, ": expected no file of this name, found one; --force replaces it"));
}

absl::StatusOr<ExitCode> GenerateCriteo(const SyntheticCriteoOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SyntheticCriteoResult result, GenerateSyntheticCriteo(options));
  std::printf("%s: %lld rows, %.2f%% positive, %.2f%% of the feature cells empty\n", options.path.c_str(),
              static_cast<long long>(result.rows),
              100.0 * static_cast<double>(result.positives) / static_cast<double>(result.rows),
              100 * result.missing_rate);
  std::printf("Bayes AUC (the best that any model can expect): %.4f\n", result.bayes_auc);
  return ExitCode::kDone;
}

void PrintResult(const SyntheticTableOptions& options, const SyntheticTableResult& result) {
  std::printf("%s: %lld rows", options.path.c_str(), static_cast<long long>(result.rows));
  const v1::TableSchema schema = SyntheticTableSchema(options.kind);
  if (options.kind == Task::Kind::kMultiClass) {
    std::printf(", by class:");
    for (int label = 0; label < schema.classes_size(); ++label) {
      std::printf("%s %s %lld", label == 0 ? "" : ",", schema.classes(label).c_str(),
                  static_cast<long long>(result.class_rows[static_cast<size_t>(label)]));
    }
    std::printf("\nBayes macro AUC (the best that any model can expect): %.4f\n", result.bayes_macro_auc);
  } else {
    std::printf(", mean target %g\nBayes R^2 (the best that any model can expect): %.4f\n", result.target_mean,
                result.bayes_r_squared);
  }
  std::printf("%s: its schema\n", options.schema_path.c_str());
}

absl::StatusOr<ExitCode> Generate(const GenerateFlags& flags) {
  SPLITVEIL_RETURN_IF_ERROR(CheckIsNew(flags.options.path, flags.force));
  if (flags.task == "binary") {
    return flags.schema_path.empty()
               ? GenerateCriteo(flags.options)
               : absl::InvalidArgumentError(
                     "command line: --schema_out: has no effect with --task=binary, which is prepared by "
                     "--format=criteo: remove it");
  }
  SyntheticTableOptions options;
  options.kind = flags.task == "regression" ? Task::Kind::kRegression : Task::Kind::kMultiClass;
  options.path = flags.options.path;
  options.schema_path =
      flags.schema_path.empty() ? absl::StrCat(flags.options.path, ".schema.textproto") : flags.schema_path;
  SPLITVEIL_RETURN_IF_ERROR(CheckIsNew(options.schema_path, flags.force));
  options.rows = flags.options.rows;
  options.seed = flags.options.seed;
  SPLITVEIL_ASSIGN_OR_RETURN(const SyntheticTableResult result, GenerateSyntheticTable(options));
  PrintResult(options, result);
  return ExitCode::kDone;
}

}  // namespace

void AddGenerateCommand(CommandLine& line) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App& command = line.AddCommand(
      {"generate", "Generate click logs in Criteo's format, or a table of another task, with a known best score.",
       "splitveil generate --rows=70000 --out=clicks.tsv", "Before a run"},
      [flags] { return Generate(*flags); });
  AddValue(command, "--out=FILE", flags->options.path, "File to write.")->required();
  command.add_flag("--force", flags->force,
                   "Replace existing files of these names, even if `generate` did not write them.");
  AddValue(command, "--task=TASK", flags->task,
           "What is predicted; binary: clicks in Criteo's format; multi_class, regression: a table of twelve "
           "columns, with its schema.")
      ->check(OneOf({"binary", "multi_class", "regression"}));
  AddValue(command, "--schema_out=FILE", flags->schema_path,
           "File for the schema of such a table, for `splitveil prepare`; by default beside it, "
           "FILE.schema.textproto.");
  AddValue(command, "--rows=N", flags->options.rows, "Rows to generate.")->check(IntegerIn(1));
  AddValue(command, "--seed=N", flags->options.seed, "The same seed gives the same bytes.")->check(IntegerIn(0));
}

}  // namespace splitveil
