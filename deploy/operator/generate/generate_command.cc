#include "deploy/operator/generate/generate_command.h"

#include <cstdio>
#include <memory>

#include "common/preparation/synthetic_criteo.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<ExitCode> Generate(const SyntheticCriteoOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SyntheticCriteoResult result, GenerateSyntheticCriteo(options));
  std::printf("%s: %lld rows, %.2f%% positive, %.2f%% of the feature cells empty\n", options.path.c_str(),
              static_cast<long long>(result.rows),
              100.0 * static_cast<double>(result.positives) / static_cast<double>(result.rows),
              100 * result.missing_rate);
  std::printf("Bayes AUC (the best that any model can expect): %.4f\n", result.bayes_auc);
  return ExitCode::kDone;
}

}  // namespace

void AddGenerateCommand(CommandLine& line) {
  const auto options = std::make_shared<SyntheticCriteoOptions>();
  CLI::App& command =
      line.AddCommand({"generate", "Generate click logs in Criteo's format, with a known best AUC, to try things out.",
                       "splitveil generate --rows=70000 --out=clicks.tsv", "Before a run"},
                      [options] { return Generate(*options); });
  command.add_option("--out", options->path, "File to write.")->type_name("FILE")->required();
  command.add_option("--rows", options->rows, "Rows to generate.")->type_name("N")->check(IntegerIn(1));
  command.add_option("--seed", options->seed, "The same seed gives the same bytes.")
      ->type_name("N")
      ->check(IntegerIn(0));
}

}  // namespace splitveil
