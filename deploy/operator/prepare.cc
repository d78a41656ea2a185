#include <cstdio>

#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

#include "common/dataset/prepare_criteo.h"

namespace splitveil {
namespace {

constexpr char kCriteo[] = "criteo";

void PrintMissingRates(const PrepareCriteoResult& result) {
  std::printf("missing (%% of the rows):");
  for (int column = 0; column < kCriteoFeatures; ++column) {
    const bool numeric = column < kCriteoNumeric;
    std::printf(" %c%d %.1f", numeric ? 'I' : 'C', numeric ? column + 1 : column - kCriteoNumeric + 1,
                100 * result.missing_rates[column]);
  }
  std::printf("\n");
}

absl::Status Prepare(const Flags& flags) {
  if (flags.Get("format") != kCriteo) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --format: expected ", kCriteo, ", found \"", flags.Get("format"), "\""));
  }
  const absl::StatusOr<int64_t> seed = flags.GetInt("seed", 0);
  if (!seed.ok()) {
    return seed.status();
  }
  PrepareCriteoOptions options;
  options.input_path = flags.Get("input");
  options.out_dir = flags.Get("out");
  options.seed = *seed;
  for (const auto& [name, fraction] : {std::pair{"only_label_fraction", &options.only_label_fraction},
                                       std::pair{"only_nonlabel_fraction", &options.only_nonlabel_fraction}}) {
    const absl::StatusOr<double> value = flags.GetDouble(name, 0, 1);
    if (!value.ok()) {
      return value.status();
    }
    *fraction = *value;
  }
  const absl::StatusOr<PrepareCriteoResult> result = PrepareCriteo(options);
  if (!result.ok()) {
    return result.status();
  }
  std::printf("%s: %lld rows, %.2f%% positive\n", options.input_path.c_str(), static_cast<long long>(result->rows),
              100.0 * result->positives / result->rows);
  std::printf("%s: %lld rows\n", result->label_path.c_str(), static_cast<long long>(result->label_rows));
  std::printf("%s: %lld rows\n", result->nonlabel_path.c_str(), static_cast<long long>(result->nonlabel_rows));
  std::printf("held by both: %lld rows\n", static_cast<long long>(result->common_rows));
  PrintMissingRates(*result);
  return absl::OkStatus();
}

}  // namespace

Command PrepareCommand() {
  return {"prepare",
          "Split a data file vertically between the two parties.",
          {{"format", "", "Format of the input: criteo.", /*required=*/true},
           {"input", "", "File to split, plain or .gz.", /*required=*/true},
           {"out", "", "Folder for label_party.tsv and nonlabel_party.tsv.", /*required=*/true},
           {"seed", "1", "Same seed, same ids, membership and order."},
           {"only_label_fraction", "0.01", "Share of the rows that the label party alone holds."},
           {"only_nonlabel_fraction", "0.01", "Share of the rows that the non-label party alone holds."}},
          Prepare};
}

}  // namespace splitveil
