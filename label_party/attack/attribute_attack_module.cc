#include "label_party/attack/attribute_attack_module.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/dataset/features.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Rows of a history guessed at once: a row holds up to EpochHistory::kSlots epochs, so all at once would double the
// memory.
constexpr int64_t kGuessedAtOnce = 8192;

// Hidden layers of decoders if the top model is a TorchScript file, whose layers are not known.
constexpr int kDefaultUnits[] = {64, 32};

// The layers of a decoder before its last: those of the top model, without its side inputs.
v1::ModelSpec HiddenLayers(const AttributeAttackTraits& attack, const v1::ModelSpec& top_half) {
  v1::ModelSpec hidden;
  if (attack.linear) {
    return hidden;
  }
  if (!top_half.has_torchscript_path()) {
    *hidden.mutable_layers() = top_half.layers();
    if (top_half.has_input_image()) {
      *hidden.mutable_input_image() = top_half.input_image();
    }
    // The top model's own layers: an adversary that trains the top model knows what fits these activations.
    hidden.set_initialization(top_half.initialization());
    return hidden;
  }
  for (const int units : kDefaultUnits) {
    v1::Layer& layer = *hidden.add_layers();
    layer.set_name(absl::StrCat("hidden", hidden.layers_size()));
    layer.set_units(units);
    layer.set_activation(v1::RELU);
  }
  return hidden;
}

std::vector<uint8_t> ValuesAt(absl::Span<const uint32_t> positions, const KnownAttribute& attribute) {
  std::vector<uint8_t> values;
  values.reserve(positions.size());
  for (const uint32_t position : positions) {
    values.push_back(attribute.by_position[position]);
  }
  return values;
}

absl::Status CheckExamples(const char* what, absl::Span<const uint32_t> positions, size_t aligned) {
  // Strictly ascending, so that row r of the guesses is one example only.
  const bool ascending = std::adjacent_find(positions.begin(), positions.end(),
                                            [](uint32_t a, uint32_t b) { return a >= b; }) == positions.end();
  if (!ascending || (!positions.empty() && positions.back() >= aligned)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected ascending positions below ", aligned, ", found others"));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const char* what, ConstMatrixView activations, int64_t rows, int64_t width) {
  if (activations.rows() != rows || activations.cols() != width) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected ", rows, " x ", width, " activations, found ",
                                                   activations.rows(), " x ", activations.cols()));
  }
  return absl::OkStatus();
}

// Rows of examples in their order, from `first_rank` on.
absl::Status Take(const char* what, uint32_t epoch, int64_t first_rank, ConstMatrixView activations, EpochRows& kept) {
  SPLITVEIL_RETURN_IF_ERROR(CheckRows(what, activations, activations.rows(), kept.width()));
  if (first_rank < 0 || activations.rows() > kept.examples() - first_rank) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected ranks below ", kept.examples(), ", found ",
                                                   activations.rows(), " from ", first_rank));
  }
  for (int64_t j = 0; j < activations.rows(); ++j) {
    kept.Set(epoch, first_rank + j, activations.row(j));
  }
  return absl::OkStatus();
}

}  // namespace

AttributeAttackModule::AttributeAttackModule(Options options)
    : options_(std::move(options)),
      training_(static_cast<int64_t>(options_.examples.marked.size() + options_.examples.unmarked.size()),
                options_.cut_width),
      test_(static_cast<int64_t>(options_.examples.test.size()), options_.cut_width),
      auxiliary_(static_cast<int64_t>(options_.examples.auxiliary.size()), options_.cut_width),
      training_history_(training_.examples(), options_.cut_width),
      test_history_(test_.examples(), options_.cut_width) {}

absl::StatusOr<std::unique_ptr<AttributeAttackModule>> AttributeAttackModule::Create(Options options) {
  std::unique_ptr<AttributeAttackModule> module = absl::WrapUnique(new AttributeAttackModule(std::move(options)));
  SPLITVEIL_RETURN_IF_ERROR(module->Build());
  return module;
}

absl::Status AttributeAttackModule::Build() {
  std::mt19937_64 seeds(options_.config.seed());
  // Drawn first and always, so that the decoders' seeds do not depend on which attacks are agreed.
  const uint64_t shadow_seed = seeds();
  for (const int number : options_.audit.attacks()) {
    const AttributeAttackTraits attack = TraitsOf(static_cast<v1::AttributeAttack>(number));
    SPLITVEIL_RETURN_IF_ERROR(CheckSources(attack));
    // An attempt for each attack and attribute, in the agreed order, with a seed of its own.
    for (const std::string& name : options_.audit.attributes()) {
      const auto known = std::find_if(options_.known.begin(), options_.known.end(),
                                      [&](const KnownAttribute& attribute) { return attribute.name == name; });
      if (known == options_.known.end()) {
        return absl::InvalidArgumentError(absl::StrCat("attribute_audit.attributes: expected ", name,
                                                       " among the columns of attribute_attack.auxiliary, found none"));
      }
      SPLITVEIL_RETURN_IF_ERROR(CheckAttribute(*known));
      SPLITVEIL_RETURN_IF_ERROR(AddAttempt(attack, *known, seeds()));
    }
    // Only SIMULATOR: it has no activations of known examples, so an encoder that imitates the bottom model makes them
    // from features.
    if (attack.needs_features()) {
      ShadowEncoder::Options shadow;
      SPLITVEIL_ASSIGN_OR_RETURN(shadow.model, BottomHalf(options_.config.shadow_model(), ""));
      shadow.features = options_.features.get();
      shadow.cut_width = options_.cut_width;
      shadow.passes = options_.config.decoder_epochs();
      shadow.seed = shadow_seed;
      SPLITVEIL_ASSIGN_OR_RETURN(shadow_, ShadowEncoder::Create(shadow));
    }
  }
  const std::vector<uint32_t>& marked = options_.examples.marked;
  const std::vector<uint32_t>& unmarked = options_.examples.unmarked;
  std::vector<uint32_t> both;
  std::set_intersection(marked.begin(), marked.end(), unmarked.begin(), unmarked.end(), std::back_inserter(both));
  if (!both.empty()) {
    return absl::InvalidArgumentError("marked examples: an example is both marked and unmarked");
  }
  // The values are in the attempts now; the rest must not outlive this call.
  options_.known.clear();
  return absl::OkStatus();
}

// An attack without its source would guess the most common value and look harmless.
absl::Status AttributeAttackModule::CheckSources(const AttributeAttackTraits& attack) const {
  if (attack.name.empty()) {
    return absl::InvalidArgumentError("attribute_audit.attacks: an attack is unknown");
  }
  const auto missing = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute_audit.attacks: expected ", what, " for ", attack.name, ", found none"));
  };
  switch (attack.source) {
    case DecoderSource::kAuxiliaryActivations:
      if (!options_.audit.embed_auxiliary() || options_.examples.auxiliary.empty()) {
        return missing("embed_auxiliary, and auxiliary examples,");
      }
      break;
    case DecoderSource::kMarkedActivations:
    case DecoderSource::kMarkedHistory:
      if (options_.examples.marked.empty()) {
        return missing("marked training examples");
      }
      break;
    case DecoderSource::kAuxiliaryFeatures:
      if (options_.features == nullptr || !options_.config.has_shadow_model()) {
        return missing("attribute_attack.shadow_model, and features in attribute_attack.auxiliary,");
      }
      break;
  }
  return absl::OkStatus();
}

absl::Status AttributeAttackModule::CheckAttribute(const KnownAttribute& attribute) const {
  const size_t aligned = attribute.by_position.size();
  const size_t feature_rows = options_.features == nullptr ? 0 : static_cast<size_t>(options_.features->rows());
  if (attribute.by_feature_row.size() != feature_rows) {
    return absl::InvalidArgumentError(absl::StrCat("attribute ", attribute.name, ": expected a value for each of ",
                                                   feature_rows, " rows of features, found ",
                                                   attribute.by_feature_row.size()));
  }
  if (aligned != options_.known.front().by_position.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute ", attribute.name, " has ", aligned, " values, and the first attribute ",
                     options_.known.front().by_position.size(), ": both need one for each aligned example"));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckExamples("test examples", options_.examples.test, aligned));
  SPLITVEIL_RETURN_IF_ERROR(CheckExamples("auxiliary examples", options_.examples.auxiliary, aligned));
  SPLITVEIL_RETURN_IF_ERROR(CheckExamples("marked examples", options_.examples.marked, aligned));
  return CheckExamples("unmarked examples", options_.examples.unmarked, aligned);
}

absl::Status AttributeAttackModule::AddAttempt(const AttributeAttackTraits& attack, const KnownAttribute& attribute,
                                               uint64_t seed) {
  Attempt attempt;
  attempt.attack = attack;
  attempt.attribute = attribute.name;
  switch (attack.source) {
    case DecoderSource::kAuxiliaryActivations:
      attempt.values = ValuesAt(options_.examples.auxiliary, attribute);
      break;
    case DecoderSource::kMarkedActivations:
    case DecoderSource::kMarkedHistory:
      attempt.values = ValuesAt(options_.examples.marked, attribute);
      break;
    case DecoderSource::kAuxiliaryFeatures:
      attempt.values = attribute.by_feature_row;
      break;
  }
  // A value out of range would index outside the decoder's outputs; without any known value there is nothing to learn
  // from.
  const bool fits = std::all_of(attempt.values.begin(), attempt.values.end(),
                                [&](uint8_t value) { return value == kUnknownAttribute || value < attribute.values; });
  const bool none_known = std::all_of(attempt.values.begin(), attempt.values.end(),
                                      [](uint8_t value) { return value == kUnknownAttribute; });
  if (!fits || none_known) {
    return absl::InvalidArgumentError(absl::StrCat("attribute ", attribute.name, ": expected numbers below ",
                                                   attribute.values, " for ", attack.name, ", found ",
                                                   fits ? "no known one" : "a larger one"));
  }
  attempt.decoder_options.input_width = options_.cut_width;
  attempt.decoder_options.values = attribute.values;
  attempt.decoder_options.hidden = HiddenLayers(attack, options_.top_half);
  attempt.decoder_options.passes = options_.config.decoder_epochs();
  attempt.decoder_options.seed = seed;
  // Even if a decoder is made for each epoch: its options are then known to fit.
  SPLITVEIL_ASSIGN_OR_RETURN(attempt.decoder, AttributeDecoder::Create(attempt.decoder_options));
  attempts_.push_back(std::move(attempt));
  return absl::OkStatus();
}

std::optional<int64_t> AttributeAttackModule::TrainingRankOf(uint32_t position) const {
  // Marked examples first: a decoder learns from the first rows and is tried on the rest.
  int64_t before = 0;
  for (const std::vector<uint32_t>* of : {&options_.examples.marked, &options_.examples.unmarked}) {
    const auto found = std::lower_bound(of->begin(), of->end(), position);
    if (found != of->end() && *found == position) {
      return before + (found - of->begin());
    }
    before += static_cast<int64_t>(of->size());
  }
  return std::nullopt;
}

bool AttributeAttackModule::needs_training() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const Attempt& attempt) { return attempt.attack.reads_training(); });
}

bool AttributeAttackModule::needs_auxiliary() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const Attempt& attempt) { return attempt.attack.needs_auxiliary_activations(); });
}

bool AttributeAttackModule::needs_test() const { return !attempts_.empty(); }

bool AttributeAttackModule::IsDue(uint32_t epoch, bool last) const {
  // The last epoch is always due: its guesses are what the final model reveals.
  return !attempts_.empty() && (last || (epoch + 1) % static_cast<uint32_t>(options_.audit.every_epochs()) == 0);
}

absl::Status AttributeAttackModule::TakeTraining(uint32_t epoch, absl::Span<const uint32_t> positions,
                                                 ConstMatrixView activations) {
  if (!needs_training()) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(
      CheckRows("training", activations, static_cast<int64_t>(positions.size()), options_.cut_width));
  for (size_t j = 0; j < positions.size(); ++j) {
    // By rank and not in the order of arrival, so that an example has the same row in every epoch.
    if (const std::optional<int64_t> rank = TrainingRankOf(positions[j]); rank.has_value()) {
      training_.Set(epoch, *rank, activations.row(static_cast<int64_t>(j)));
    }
  }
  Remember(epoch);
  return absl::OkStatus();
}

absl::Status AttributeAttackModule::TakeTest(uint32_t epoch, int64_t first_rank, ConstMatrixView activations) {
  if (needs_test()) {
    SPLITVEIL_RETURN_IF_ERROR(Take("test", epoch, first_rank, activations, test_));
    Remember(epoch);
  }
  return absl::OkStatus();
}

absl::Status AttributeAttackModule::TakeAuxiliary(uint32_t epoch, int64_t first_rank, ConstMatrixView activations) {
  return needs_auxiliary() ? Take("auxiliary", epoch, first_rank, activations, auxiliary_) : absl::OkStatus();
}

bool AttributeAttackModule::remembers() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const Attempt& attempt) { return attempt.attack.remembers(); });
}

void AttributeAttackModule::Remember(uint32_t epoch) {
  // Training rows come in slices and test rows after them: an epoch is remembered once both are complete.
  if (remembers() && remembered_epoch_ != epoch && training_.IsComplete(epoch) && test_.IsComplete(epoch)) {
    training_history_.Add(training_.rows());
    test_history_.Add(test_.rows());
    remembered_epoch_ = epoch;
  }
}

bool AttributeAttackModule::IsReady(const AttributeAttackTraits& attack, uint32_t epoch) const {
  // A history is complete only up to the epoch that was added last.
  if (attack.remembers()) {
    return remembered_epoch_ == epoch;
  }
  return (attack.reads_training() ? training_ : auxiliary_).IsComplete(epoch);
}

absl::StatusOr<absl::Span<const AttributeGuess>> AttributeAttackModule::Guess(uint32_t epoch, bool (*stop)()) {
  // The peer may ask again after a lost connection: decoders must not learn a second time.
  if (guessed_epoch_ == epoch) {
    return guesses_;
  }
  // If a decoder fails or is stopped halfway, no half of the guesses may count as this epoch's.
  guessed_epoch_.reset();
  guesses_.clear();
  Matrix imitated;
  if (shadow_ != nullptr && training_.IsComplete(epoch)) {
    // One shadow encoder serves every attribute: it learns from activations alone.
    SPLITVEIL_RETURN_IF_ERROR(shadow_->Imitate(training_.rows(), stop));
    SPLITVEIL_ASSIGN_OR_RETURN(imitated, shadow_->EncodeAll());
  }
  for (Attempt& attempt : attempts_) {
    if (IsReady(attempt.attack, epoch)) {
      SPLITVEIL_RETURN_IF_ERROR(Learn(attempt, imitated, stop));
      SPLITVEIL_RETURN_IF_ERROR(Try(attempt, epoch));
    }
  }
  guessed_epoch_ = epoch;
  return guesses_;
}

absl::Status AttributeAttackModule::Learn(Attempt& attempt, ConstMatrixView imitated, bool (*stop)()) {
  switch (attempt.attack.source) {
    case DecoderSource::kAuxiliaryActivations: {
      // Auxiliary examples are embedded by the bottom model of this epoch: what was learnt of an earlier one is stale.
      SPLITVEIL_ASSIGN_OR_RETURN(attempt.decoder, AttributeDecoder::Create(attempt.decoder_options));
      return attempt.decoder->Learn(auxiliary_.rows(), attempt.values, stop);
    }
    case DecoderSource::kMarkedActivations:
      // Marked examples come first in training_ (Build).
      return attempt.decoder->Learn(training_.rows().block(0, static_cast<int64_t>(attempt.values.size())),
                                    attempt.values, stop);
    case DecoderSource::kMarkedHistory: {
      AttributeDecoder::Options options = attempt.decoder_options;
      options.input_width = training_history_.width();
      options.hidden.clear_input_image();  // Epochs side by side are no image.
      SPLITVEIL_ASSIGN_OR_RETURN(attempt.decoder, AttributeDecoder::Create(options));
      return attempt.decoder->Learn(training_history_.Rows(0, static_cast<int64_t>(attempt.values.size())),
                                    attempt.values, stop);
    }
    case DecoderSource::kAuxiliaryFeatures:
      return attempt.decoder->Learn(imitated, attempt.values, stop);
  }
  return absl::InternalError("attribute attack: expected a source of what decoders learn");
}

absl::StatusOr<Matrix> AttributeAttackModule::GuessFrom(const EpochHistory& history, int64_t first, int64_t count,
                                                        const AttributeDecoder& decoder) {
  // Parts of almost equal size: the decoder standardises each part by itself, and a small last part would get a poor
  // estimate.
  const int64_t part_count = (count + kGuessedAtOnce - 1) / kGuessedAtOnce;
  std::vector<Matrix> parts;
  for (int64_t k = 0; k < part_count; ++k) {
    const int64_t from = count * k / part_count;
    const int64_t to = count * (k + 1) / part_count;
    SPLITVEIL_ASSIGN_OR_RETURN(parts.emplace_back(), decoder.Guess(history.Rows(first + from, to - from)));
  }
  Matrix scores(count, parts.empty() ? 0 : parts.front().cols());
  int64_t filled = 0;
  for (const Matrix& part : parts) {
    scores.SetBlock(filled, part);
    filled += part.rows();
  }
  return scores;
}

absl::Status AttributeAttackModule::Try(const Attempt& attempt, uint32_t epoch) {
  const auto add = [&](v1::AttributeGuesses::Examples examples, const EpochRows& latest, const EpochHistory& history,
                       int64_t first) -> absl::Status {
    const int64_t count = latest.examples() - first;
    SPLITVEIL_ASSIGN_OR_RETURN(Matrix scores, attempt.attack.remembers()
                                                  ? GuessFrom(history, first, count, *attempt.decoder)
                                                  : attempt.decoder->Guess(latest.rows().block(first, count)));
    guesses_.push_back({attempt.attack.attack, attempt.attribute, examples, std::move(scores)});
    return absl::OkStatus();
  };
  if (test_.IsComplete(epoch)) {
    SPLITVEIL_RETURN_IF_ERROR(add(v1::AttributeGuesses::TEST, test_, test_history_, 0));
  }
  if (attempt.attack.reads_training() && !options_.examples.unmarked.empty()) {
    // Only unmarked examples: the adversary knows the attributes of the marked ones.
    const auto marked = static_cast<int64_t>(options_.examples.marked.size());
    SPLITVEIL_RETURN_IF_ERROR(add(v1::AttributeGuesses::TRAINING, training_, training_history_, marked));
  }
  return absl::OkStatus();
}

}  // namespace splitveil
