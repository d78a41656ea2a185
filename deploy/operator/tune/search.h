// What a search tries, and how it spends its time: settings drawn at random, and successive halving.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_TUNE_SEARCH_H_
#define SPLITVEIL_DEPLOY_OPERATOR_TUNE_SEARCH_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// The three files of a run.
struct RunFiles {
  v1::RunAgreement agreement;
  v1::LabelPartyConfig label_config;
  v1::NonLabelPartyConfig nonlabel_config;
};

// One point of the space; nullopt: as configured.
struct TuneSettings {
  bool is_linear = false;               // Linear layers, cut at kLogisticCut, in place of the configured model.
  std::optional<double> learning_rate;  // Of both parties, as a factor of the configured one.
  std::optional<double> weight_decay;   // Decoupled (AdamW), in place of Adam or the configured AdamW.
  std::optional<double> epochs;         // As a factor of the agreed ones.
  struct Layers {
    int before_cut = 0, behind_cut = 0;  // At least 1 each; "logit" comes after them.
    int width = 0, cut_width = 0;        // Of all others; of the last one before the cut.
  };
  std::optional<Layers> layers;
  std::optional<int> embedding;       // Embedding.dimension; of a model with one.
  std::optional<int> numeric_pieces;  // ModelSpec.numeric_pieces; of a model of layers.
};

// Which of them may vary. A model that is a file, has convolutions, or is written as two halves keeps its layers.
// Under gaussian_label_dp the epochs stay, so that all runs draw the same noise.
struct SearchSpace {
  bool weight_decay = false, epochs = false, layers = false, embedding = false;
};
SearchSpace SpaceOf(const RunFiles& files);

// Logistic regression on the same columns, what a better model is held against; in place of any model.
TuneSettings LinearSettings();

// Random search (Bergstra and Bengio, JMLR 2012): each setting by itself, learning rate and weight decay on a
// logarithmic scale.
TuneSettings DrawSettings(const SearchSpace& space, std::mt19937_64& random);

// Puts the settings into the files. Both parties' models become the same layers, written out. Layers that are audited
// and are no longer there are audited no more.
void Apply(const TuneSettings& settings, RunFiles& files);

// "learning rate x 1.7, weight decay 0.003, 3 + 2 layers of 128, cut 32"; "as configured" for none.
std::string SettingsText(const TuneSettings& settings);

// Successive halving (Jamieson and Talwalkar, AISTATS 2016) by thirds.
struct Rung {
  int64_t trials = 0;
  double epochs = 1;  // Share of a trial's own epochs.
};
// The last rung has all epochs, each before it a third of the next one's, and three times the trials; at most four
// rungs, and none of less than one epoch of `epochs`. `trials`, `epochs`: at least 1.
std::vector<Rung> PlanRungs(int64_t trials, int64_t epochs);

// The `count` best of `quality` (larger is better; nullopt: the run failed, which never survives), by index, best
// first. The first `always` of all, the configuration as it is and the linear model, survive if they ran, so that the
// last rung says what was gained.
std::vector<size_t> Survivors(absl::Span<const std::optional<double>> quality, int64_t count, size_t always = 1);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_TUNE_SEARCH_H_
