#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/local_run/two_party_run.h"
#include "deploy/operator/tune/derived_files.h"
#include "deploy/operator/tune/private_choice.h"
#include "deploy/operator/tune/search.h"

#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Trials of settings as real runs of both parties' programs, the better third of which go on with more epochs.
//
//   DIR/runs/TRIAL-RUNG/        one run: deploy/operator/local_run
//   DIR/tune.csv                one line per finished run
//   DIR/choice                  under a guarantee: the trial that was chosen
//   FILE.tuned.textproto        beside each of the three files, the same with the chosen settings
struct TuneOptions : LocalRunsOptions {
  std::string label_config_path, nonlabel_config_path;  // config_path: the agreement.
  int64_t trials = 30;
  uint64_t seed = 1;
  bool debit_account = false;
};

struct Trial {
  TuneSettings settings;
  std::optional<ModelFigures> validation;  // In the last rung that it ran in.
};

struct TrialRun {
  size_t trial = 0;
  LocalRun run;
  std::optional<RunFigures> figures;
};

absl::Status CheckCanTune(const RunFiles& files) {
  if (files.agreement.mode() == v1::RunAgreement::PREDICT) {
    return absl::InvalidArgumentError("mode: expected TRAIN, found PREDICT");
  }
  if (!(files.agreement.validation_fraction() > 0)) {
    return absl::InvalidArgumentError(
        "validation_fraction: expected more than 0, because settings are chosen on the validation part and the test "
        "part stays untouched, found 0");
  }
  return absl::OkStatus();
}

bool IsGuaranteed(const LocalRun& run) {
  return run.label_config.protection().has_gaussian_label_dp() || run.label_config.protection().has_label_dp();
}

// What a search adds to a run's files: no attacks, which cost time and change nothing; one alignment for all. Under a
// guarantee nothing of a trial may learn from the labels themselves, or its figures would tell of them.
void PrepareForTrials(LocalRun& run) {
  run.agreement.clear_audit();
  run.label_config.clear_label_side_audit();
  ShareAlignment(run);
  if (run.label_config.protection().has_gaussian_label_dp()) {
    run.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_release_head_predicts(true);
  }
}

// Which trial, in which rung, with which share of its epochs.
struct Place {
  size_t trial = 0, rung = 0;
  double epochs = 1;
};

TrialRun MakeRun(uint64_t seed, const LocalRun& base, const std::string& data, const TuneSettings& settings,
                 const Place& place) {
  TrialRun made;
  made.trial = place.trial;
  made.run = base;
  PrepareForTrials(made.run);
  RunFiles files = {made.run.agreement, made.run.label_config, made.run.nonlabel_config};
  Apply(settings, files);
  made.run.agreement = files.agreement;
  made.run.label_config = files.label_config;
  made.run.nonlabel_config = files.nonlabel_config;
  const double epochs = std::ceil(made.run.agreement.epochs() * place.epochs - 1e-9);
  made.run.agreement.set_epochs(std::max(1, static_cast<int32_t>(epochs)));
  made.run.name = absl::StrFormat("trial%03d-rung%d", place.trial, place.rung + 1);
  made.run.agreement.set_run_name(made.run.name);
  SetSeeds(seed, made.run.label_config, made.run.nonlabel_config);
  made.run.configuration_sha256 = ConfigurationSha256(made.run, data);
  return made;
}

std::string FolderOf(const TuneOptions& options, const TrialRun& run) {
  return absl::StrCat(options.out, "/runs/", run.run.name);
}

// Never of the test part, which must not take part in the choice.
std::string QualityText(const ModelFigures& validation) {
  return absl::StrFormat("validation %s %.4f", validation.is_regression() ? "R^2" : "AUC",
                         validation.quality().value_or(std::nan("")));
}

void RunOne(TrialRun& run, const std::string& what, const TuneOptions& options, RunProgress& progress) {
  absl::StatusOr<RunFigures> figures =
      RunToResult(run.run, FolderOf(options, run), options.programs, options.stop_requested);
  if (figures.ok()) {
    run.figures = *std::move(figures);
    progress.Finished(what, QualityText(run.figures->validation));
  } else if (!absl::IsCancelled(figures.status())) {
    progress.Failed(what, run.run.name, figures.status());
  }
}

// Runs what is not finished yet: the first one by itself, so that the others find its alignment.
absl::Status RunRung(std::vector<TrialRun>& runs, const std::vector<Trial>& trials, const TuneOptions& options) {
  std::vector<TrialRun*> unfinished;
  for (TrialRun& run : runs) {
    absl::StatusOr<RunFigures> found = FindResult(run.run, FolderOf(options, run));
    if (found.ok()) {
      run.figures = *std::move(found);
    } else {
      unfinished.push_back(&run);
    }
  }
  const auto total = static_cast<int64_t>(runs.size());
  RunProgress progress(total, total - static_cast<int64_t>(unfinished.size()));
  const auto run = [&](size_t i) {
    TrialRun& one = *unfinished[i];
    RunOne(one, absl::StrCat("trial ", one.trial, ", ", SettingsText(trials[one.trial].settings)), options, progress);
  };
  if (!unfinished.empty()) {
    run(0);
    ForEachRun(options, unfinished.size() - 1, [&](size_t i) { run(i + 1); });
  }
  progress.Finish();
  // A trial that failed, say because its learning rate was too large, is not chosen; only a stop ends the search.
  return options.stop_requested() ? progress.Outcome() : absl::OkStatus();
}

std::string CsvLine(const TrialRun& run, size_t rung, const Trial& trial) {
  return absl::StrFormat("%d,%d,%d,%.6f,%.6f,\"%s\"\n", run.trial, rung + 1, run.run.agreement.epochs(),
                         run.figures->validation.quality().value_or(std::nan("")),
                         run.figures->validation.loss().value_or(std::nan("")), SettingsText(trial.settings));
}

absl::Status WriteChosen(const TuneOptions& options, const TuneSettings& settings, const std::string& why) {
  RunFiles files;
  SPLITVEIL_RETURN_IF_ERROR(ReadAsWritten(options.config_path, files.agreement));
  SPLITVEIL_RETURN_IF_ERROR(ReadAsWritten(options.label_config_path, files.label_config));
  SPLITVEIL_RETURN_IF_ERROR(ReadAsWritten(options.nonlabel_config_path, files.nonlabel_config));
  Apply(settings, files);
  SPLITVEIL_RETURN_IF_ERROR(WriteDerived(kTuned, options.config_path, why, files.agreement));
  SPLITVEIL_RETURN_IF_ERROR(WriteDerived(kTuned, options.label_config_path, why, files.label_config));
  return WriteDerived(kTuned, options.nonlabel_config_path, why, files.nonlabel_config);
}

// What it costs in privacy, before anything runs. Errors: InvalidArgument where it costs something and nobody said yes;
// those of PlanPrivateChoice.
absl::StatusOr<std::optional<PrivateChoice>> PlanChoice(const TuneOptions& options, const LocalRun& base) {
  if (!IsGuaranteed(base)) {
    std::fprintf(
        stderr,
        "The trials run on this machine and send nothing to anybody. The choice is made by the true labels of the "
        "validation part: to tell somebody which of N trials was chosen tells at most log2 N bits of all of them "
        "together%s.\n",
        base.label_config.protection().has_none() ? "" : ", which no bound of the run counts");
    return std::optional<PrivateChoice>();
  }
  v1::LabelPartyConfig own;  // Of `base` the ledgers are in the folders of its trials.
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(options.label_config_path, own));
  SPLITVEIL_ASSIGN_OR_RETURN(PrivateChoice choice, PlanPrivateChoice(base, own.party().ledger_path()));
  const std::string cost = absl::StrCat(
      "privacy account ", choice.account.path,
      ": all trials train on the noised labels of one run, which it counts once and not again when that run follows; "
      "the choice is counted on the validation part, at the strength of the run");
  if (!options.debit_account) {
    return absl::InvalidArgumentError(absl::StrCat(cost, "; add --debit_account to allow it"));
  }
  std::fprintf(stderr, "%s\n", cost.c_str());
  return std::optional<PrivateChoice>(std::move(choice));
}

// "Trial 7 of 31 (...): validation AUC 0.7931; as configured: 0.7874; logistic regression on the same columns: 0.7613."
std::string ChoiceText(const std::vector<Trial>& trials, size_t best) {
  std::string text = absl::StrFormat("Trial %d of %d (%s): %s", best, trials.size() - 1,
                                     SettingsText(trials[best].settings), QualityText(*trials[best].validation));
  for (size_t t = 0; t < trials.size(); ++t) {
    if (t != best && (t == 0 || trials[t].settings.is_linear)) {
      absl::StrAppend(&text, "; ", SettingsText(trials[t].settings), ": ",
                      trials[t].validation ? QualityText(*trials[t].validation) : "failed");
    }
  }
  return text + ".";
}

// As configured, the linear model where layers may vary, and those that are drawn.
std::vector<Trial> DrawTrials(const TuneOptions& options, const SearchSpace& space) {
  std::vector<Trial> trials(1);
  if (space.layers) {
    trials.push_back({LinearSettings(), std::nullopt});
  }
  std::mt19937_64 random(options.seed);  // NOLINT(cert-msc51-cpp): the same seed repeats the same search.
  for (int64_t t = 1; t <= options.trials; ++t) {
    trials.push_back({DrawSettings(space, random), std::nullopt});
  }
  return trials;
}

// The choice under a guarantee is kept in DIR/choice beside what it was made of, since to make it again would count
// again.
absl::StatusOr<size_t> ChooseOnce(const TuneOptions& options, const PrivateChoice& choice,
                                  const std::vector<std::optional<double>>& quality, const std::string& trials) {
  const std::string path = options.out + "/choice", made_of = absl::BytesToHexString(AsBytes(Sha256(trials)));
  const std::vector<std::string> kept = absl::StrSplit(ReadFile(path).value_or(""), ' ');
  size_t chosen = 0;
  if (kept.size() == 2 && kept[0] == made_of && absl::SimpleAtoi(kept[1], &chosen) && chosen < quality.size()) {
    return chosen;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(chosen, ChoosePrivately(choice, quality));
  SPLITVEIL_RETURN_IF_ERROR(WriteFile(path, absl::StrCat(made_of, " ", chosen)));
  return chosen;
}

// Runs all rungs; returns the trial that is chosen.
absl::StatusOr<size_t> Search(const TuneOptions& options, const LocalRun& base,
                              const std::optional<PrivateChoice>& choice, std::vector<Trial>& trials) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string data, DataSha256(base));
  std::vector<size_t> left(trials.size());
  std::iota(left.begin(), left.end(), size_t{0});
  const size_t always = trials.size() - static_cast<size_t>(options.trials);
  std::string csv = "trial,rung,epochs,validation_quality,validation_loss,settings\n";
  // Every choice by labels is one to count: under a guarantee there is one.
  const std::vector<Rung> rungs =
      PlanRungs(static_cast<int64_t>(trials.size()), choice.has_value() ? 1 : base.agreement.epochs());
  for (size_t r = 0; r < rungs.size(); ++r) {
    std::fprintf(stderr, "Rung %d of %d: %d trials, %.0f%% of the epochs\n", static_cast<int>(r + 1),
                 static_cast<int>(rungs.size()), static_cast<int>(left.size()), 100 * rungs[r].epochs);
    std::vector<TrialRun> runs;
    for (const size_t t : left) {
      runs.push_back(MakeRun(options.seed, base, data, trials[t].settings, {t, r, rungs[r].epochs}));
    }
    SPLITVEIL_RETURN_IF_ERROR(RunRung(runs, trials, options));
    std::vector<std::optional<double>> quality(trials.size());
    std::string finished;
    for (const TrialRun& run : runs) {
      Trial& trial = trials[run.trial];
      trial.validation.reset();
      if (run.figures) {
        trial.validation = run.figures->validation;
        quality[run.trial] = trial.validation->quality();
        csv += CsvLine(run, r, trial);
        finished += run.run.configuration_sha256;
      }
    }
    SPLITVEIL_RETURN_IF_ERROR(WriteFile(options.out + "/tune.csv", csv));
    if (choice.has_value()) {
      return ChooseOnce(options, *choice, quality, finished);
    }
    left = Survivors(quality, r + 1 < rungs.size() ? rungs[r + 1].trials : 1, always);
    if (left.empty()) {
      break;
    }
  }
  return left.empty()
             ? absl::StatusOr<size_t>(absl::InternalError("no trial ran to its end; their logs are in the folder runs"))
             : left.front();
}

absl::Status SayWhatWasChosen(const TuneOptions& options, const std::vector<Trial>& trials, size_t chosen,
                              bool is_private) {
  const std::string why = ChoiceText(trials, chosen);
  if (chosen == 0) {
    std::printf("%s Nothing is written: the settings stay as they are.\n", why.c_str());
    return absl::OkStatus();
  }
  // The agreement goes to the other party: figures of true labels do not, where labels are protected.
  SPLITVEIL_RETURN_IF_ERROR(
      WriteChosen(options, trials[chosen].settings, is_private ? SettingsText(trials[chosen].settings) : why));
  std::printf("%s\n%s\n%s\n%s\n", why.c_str(), DerivedPath(kTuned, options.config_path).c_str(),
              DerivedPath(kTuned, options.label_config_path).c_str(),
              DerivedPath(kTuned, options.nonlabel_config_path).c_str());
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Tune(TuneOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(FindLocalPrograms(options));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const LocalRun base, LoadLocalRun(options.config_path, options.label_config_path, options.nonlabel_config_path));
  SPLITVEIL_RETURN_IF_ERROR(CheckCanTune({base.agreement, base.label_config, base.nonlabel_config}));
  for (const std::string& path : {options.config_path, options.label_config_path, options.nonlabel_config_path}) {
    SPLITVEIL_RETURN_IF_ERROR(CheckDerivedPath(kTuned, path));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<PrivateChoice> choice, PlanChoice(options, base));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<FolderLock> lock, FolderLock::Take(options.out));
  const TrialRun first = MakeRun(options.seed, base, /*data=*/"", TuneSettings(), Place());
  SPLITVEIL_RETURN_IF_ERROR(CheckFirst(first.run, options.out + "/check", options.programs));
  std::vector<Trial> trials = DrawTrials(options, SpaceOf({base.agreement, base.label_config, base.nonlabel_config}));
  SPLITVEIL_ASSIGN_OR_RETURN(const size_t chosen, Search(options, base, choice, trials));
  SPLITVEIL_RETURN_IF_ERROR(SayWhatWasChosen(options, trials, chosen, IsGuaranteed(base)));
  return ExitCode::kDone;
}

}  // namespace

void AddTuneCommand(CommandLine& line) {
  const auto options = std::make_shared<TuneOptions>();
  options->jobs = 0;
  CLI::App& command =
      line.AddCommand({"tune", "Search for settings that train better, as measured on the validation part.",
                       "splitveil tune --agreement=run.textproto --label_config=label_party.textproto "
                       "--nonlabel_config=nonlabel_party.textproto --out=out/tune",
                       "Many runs on this machine"},
                      [options] { return Tune(*options); });
  AddValue(command, "--agreement=FILE", options->config_path, "The run's agreement.")->required();
  AddValue(command, "--label_config=FILE", options->label_config_path, "The label party's configuration.")->required();
  AddValue(command, "--nonlabel_config=FILE", options->nonlabel_config_path, "The non-label party's configuration.")
      ->required();
  AddValue(command, "--out=DIR", options->out, "Folder for the runs and tune.csv. Finished runs are not repeated.")
      ->required();
  AddValue(command, "--trials=N", options->trials, "Number of settings to try, in addition to the configured ones.")
      ->check(IntegerIn(1, 10000));
  AddValue(command, "--seed=N", options->seed, "Seed of the settings and of all runs.")
      ->check(IntegerIn(0, 1000000000));
  command.add_flag("--debit_account", options->debit_account,
                   "Let the search debit the privacy account: required with gaussian_label_dp and label_dp. The run "
                   "with the chosen settings then releases the same noised labels, which are not counted again.");
  AddValue(command, "--jobs=N", options->jobs, "Runs at the same time, two processes each; 0 takes half the cores.")
      ->check(IntegerIn(0, 1024));
}

}  // namespace splitveil
