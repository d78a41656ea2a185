#include "label_party/training/attribute_audit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/dataset/feature_table.h"
#include "common/leakage/attribute_leak.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

using RowById = absl::flat_hash_map<absl::string_view, uint32_t>;

bool NeedsFeatures(const v1::AttributeAuditAgreement& audit) {
  return std::any_of(audit.attacks().begin(), audit.attacks().end(),
                     [](int attack) { return TraitsOf(static_cast<v1::AttributeAttack>(attack)).needs_features(); });
}

std::string NamesOf(const v1::Preprocessing& preprocessing) {
  return absl::StrJoin(preprocessing.attributes(), ", ", [](std::string* out, const v1::AttributeValues& attribute) {
    absl::StrAppend(out, attribute.name());
  });
}

// Rows of `known` that are neither a training nor a test example of the run, spread over the table if there are too
// many; validation ones are as good as strangers.
std::vector<uint32_t> RowsApart(const AttributeAudit::Options& options, const TrainTestSplit& split,
                                const RowById& row_by_id) {
  // Features of examples that take part would give the simulator what only the non-label party knows.
  std::vector<bool> taken(static_cast<size_t>(options.known->rows()));
  for (const auto* positions : {&split.test, &split.train}) {
    for (const uint32_t position : *positions) {
      if (const auto row = row_by_id.find(options.data.ids()[options.rows[position]]); row != row_by_id.end()) {
        taken[row->second] = true;
      }
    }
  }
  std::vector<uint32_t> apart;
  for (uint32_t row = 0; row < taken.size(); ++row) {
    if (!taken[row]) {
      apart.push_back(row);
    }
  }
  const size_t all = apart.size(), kept = std::min(all, AttributeExamples::kMost);
  for (size_t i = 0; i < kept; ++i) {
    apart[i] = apart[i * all / kept];
  }
  apart.resize(kept);
  return apart;
}

// What is known of `name`: of no example but those that the agreement lets this party know, whatever else the file has.
KnownAttribute KnownOf(const AttributeAudit::Options& options, const std::string& name,
                       const AttributeExamples& examples, const RowById& row_by_id,
                       absl::Span<const uint32_t> feature_rows) {
  const auto columns = static_cast<size_t>(options.known->preprocessing().attributes_size());
  const int column = AttributeColumn(options.known->preprocessing(), name);
  const auto value_of = [&](uint32_t row) {
    return options.known->attributes()[row * columns + static_cast<size_t>(column)];
  };
  KnownAttribute known;
  known.name = name;
  known.values = options.known->preprocessing().attributes(column).values_size();
  // The file may know more than was agreed: only marked and auxiliary examples are read from it.
  known.by_position.assign(options.rows.size(), kUnknownAttribute);
  for (const auto* positions : {&examples.auxiliary, &examples.marked}) {
    for (const uint32_t position : *positions) {
      if (const auto row = row_by_id.find(options.data.ids()[options.rows[position]]); row != row_by_id.end()) {
        known.by_position[position] = value_of(row->second);
      }
    }
  }
  for (const uint32_t row : feature_rows) {
    known.by_feature_row.push_back(value_of(row));
  }
  return known;
}

}  // namespace

// Without the peer, so that a file that lacks an agreed attribute is refused before an alignment is spent on it.
absl::Status AttributeAudit::Check(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config,
                                   const Dataset* known) {
  const v1::AttributeAuditAgreement& audit = agreement.attribute_audit();
  if (audit.attacks().empty() != (known == nullptr)) {
    return absl::InvalidArgumentError(
        known == nullptr
            ? "attribute_attack is not set, but the agreement has attribute_audit.attacks: set "
              "attribute_attack.auxiliary to the data that they know"
            : "attribute_attack is set, but the agreement has no attribute_audit.attacks: remove one or add the other");
  }
  if (known == nullptr) {
    return absl::OkStatus();
  }
  const v1::Preprocessing& preprocessing = known->preprocessing();
  for (const std::string& attribute : audit.attributes()) {
    if (AttributeColumn(preprocessing, attribute) == preprocessing.attributes_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute_attack.auxiliary: ", known->path(), ": expected the agreed attribute \"", attribute,
                       "\", found ", preprocessing.attributes().empty() ? "no attributes" : NamesOf(preprocessing)));
    }
  }
  if (NeedsFeatures(audit) && known->features().numeric + known->features().categorical == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute_attack.auxiliary: ", known->path(), ": SIMULATOR needs features, and there are none"));
  }
  return TopHalf(config.model(), agreement.cut_layer(), agreement.cut_width()).status();
}

absl::StatusOr<std::unique_ptr<AttributeAudit>> AttributeAudit::Create(const Options& options) {
  SPLITVEIL_RETURN_IF_ERROR(Check(options.agreement, options.config, options.known.get()));
  AttributeAttackModule::Options module;
  // The module sees positions and known values only, never the dataset: it cannot read more than was agreed.
  module.audit = options.agreement.attribute_audit();
  module.config = options.config.attribute_attack();
  SPLITVEIL_ASSIGN_OR_RETURN(
      module.top_half, TopHalf(options.config.model(), options.agreement.cut_layer(), options.agreement.cut_width()));
  module.cut_width = options.agreement.cut_width();
  const TrainTestSplit split = SplitRule(options.agreement).Split(options.data, options.rows);
  module.examples = AttributeExamplesOf(options.agreement, options.data, options.rows, split);
  if (const std::string sample = DescribeSample(module.examples); !sample.empty()) {
    LogInfo(sample);
  }
  RowById row_by_id;
  for (size_t row = 0; row < options.known->ids().size(); ++row) {
    row_by_id.emplace(options.known->ids()[row], static_cast<uint32_t>(row));
  }
  std::vector<uint32_t> feature_rows;
  if (NeedsFeatures(module.audit)) {
    feature_rows = RowsApart(options, split, row_by_id);
    module.features = std::make_shared<FeatureTable>(options.known, feature_rows);
  }
  for (const std::string& attribute : module.audit.attributes()) {
    module.known.push_back(KnownOf(options, attribute, module.examples, row_by_id, feature_rows));
  }
  options.data.ReleaseMemory();  // Of the ids.
  options.known->ReleaseMemory();
  const auto auxiliary_examples = static_cast<int64_t>(module.examples.auxiliary.size());
  const auto test_examples = static_cast<int64_t>(module.examples.test.size());
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<AttributeAttackModule> made,
                             AttributeAttackModule::Create(std::move(module)));
  return std::unique_ptr<AttributeAudit>(
      new AttributeAudit(options, {auxiliary_examples, test_examples}, std::move(made)));
}

AttributeAudit::AttributeAudit(const Options& options, const Counts& examples,
                               std::unique_ptr<AttributeAttackModule> module)
    : agreement_(options.agreement),
      ledger_(options.ledger),
      auxiliary_examples_(examples.auxiliary),
      test_examples_(examples.test),
      module_(std::move(module)) {}

absl::Status AttributeAudit::TakeTraining(const v1::CutActivations& slice, absl::Span<const uint32_t> positions) {
  // Decoding every slice a second time is not free, so it happens only if an agreed attack learns from them.
  if (!module_->needs_training()) {
    return absl::OkStatus();
  }
  // The step has checked the shape already; this is the same slice.
  const int64_t rows = slice.activations().shape_size() > 0 ? slice.activations().shape(0) : 0;
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                             DecodeMatrix(slice.activations(), {"activations", agreement_.wire_dtype(), rows,
                                                                agreement_.cut_width(), kCutMagnitudeLimit}));
  return module_->TakeTraining(slice.epoch(), positions.subspan(slice.first_row(), static_cast<size_t>(rows)),
                               activations);
}

absl::Status AttributeAudit::TakeTest(uint32_t epoch, uint32_t batch, ConstMatrixView activations) {
  const int64_t first = int64_t{batch} * agreement_.batch_size();
  const int64_t rows = std::min(activations.rows(), test_examples_ - first);  // Those behind are of validation.
  return module_->needs_test() && rows > 0
             ? module_->TakeTest(epoch, first, ConstMatrixView(activations.data(), rows, activations.cols()))
             : absl::OkStatus();
}

absl::Status AttributeAudit::CheckDue(const char* call, uint32_t epoch, bool last) const {
  return module_->IsDue(epoch, last)
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(call, ": expected an epoch of attribute_audit.every_epochs ",
                                                          agreement_.attribute_audit().every_epochs(),
                                                          " or the last, found epoch ", epoch));
}

absl::Status AttributeAudit::Embed(const v1::CutActivations& request, AuxiliaryEmbedding& embedding) {
  // Repeated queries are counted and not learned from: the decoders have had these activations already.
  if (HasEmbedded(request.epoch())) {  // The answer was lost.
    if (int64_t{embedding.next_batch} * agreement_.batch_size() >= auxiliary_examples_) {
      return absl::FailedPreconditionError("auxiliary activations: expected no more examples, found a further batch");
    }
    ++embedding.next_batch;
    embedding.epoch = request.epoch();
    embedding.repeated = true;
    return absl::OkStatus();
  }
  // In order and whole: row i of the queries is auxiliary example i.
  if (request.batch() != embedding.next_batch || (embedding.next_batch > 0 && request.epoch() != embedding.epoch)) {
    return absl::FailedPreconditionError(absl::StrCat("auxiliary activations: expected batch ", embedding.next_batch,
                                                      " of one epoch, found epoch ", request.epoch(), " batch ",
                                                      request.batch()));
  }
  const int64_t rows = std::min<int64_t>(agreement_.batch_size(), auxiliary_examples_ - embedding.examples);
  if (rows == 0) {
    return absl::FailedPreconditionError("auxiliary activations: expected no more examples, found a further batch");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                             DecodeMatrix(request.activations(), {"activations", agreement_.wire_dtype(), rows,
                                                                  agreement_.cut_width(), kCutMagnitudeLimit}));
  if (module_->needs_auxiliary()) {
    SPLITVEIL_RETURN_IF_ERROR(module_->TakeAuxiliary(request.epoch(), embedding.examples, activations));
  }
  embedding.epoch = request.epoch();
  embedding.examples += rows;
  ++embedding.next_batch;
  return absl::OkStatus();
}

absl::StatusOr<v1::EmbedAuxiliaryResponse> AttributeAudit::FinishEmbedding(const AuxiliaryEmbedding& embedding) {
  if (!HasEmbedded(embedding.epoch)) {
    if (embedding.next_batch == 0 || embedding.examples != auxiliary_examples_) {
      return absl::FailedPreconditionError(absl::StrCat("auxiliary activations: expected ", auxiliary_examples_,
                                                        " examples, found ", embedding.examples));
    }
    SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent(
        "attribute_queries", absl::StrCat("activations of ", auxiliary_examples_,
                                          " auxiliary examples received after epoch ", embedding.epoch)));
    embedded_epoch_ = embedding.epoch;
  }
  v1::EmbedAuxiliaryResponse response;
  response.set_examples(static_cast<uint64_t>(auxiliary_examples_));
  return response;
}

// If queries are agreed, guesses without them would measure a weaker adversary than the agreement names.
absl::Status AttributeAudit::CheckGuess(uint32_t epoch) const {
  return !agreement_.attribute_audit().embed_auxiliary() || auxiliary_examples_ == 0 || HasEmbedded(epoch)
             ? absl::OkStatus()
             : absl::FailedPreconditionError(
                   absl::StrCat("GuessAttributes: expected EmbedAuxiliary of epoch ", epoch, " before, found none"));
}

absl::StatusOr<SharedGuesses> AttributeAudit::Guess(uint32_t epoch, bool (*stop)()) {
  // A repeated request gets the same guesses: decoders have learned and would guess differently.
  if (guessed_epoch_ == epoch) {
    return guesses_;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Span<const AttributeGuess> guesses, module_->Guess(epoch, stop));
  std::vector<v1::AttributeGuesses> messages;
  for (const AttributeGuess& guess : guesses) {
    // Split into messages: one with all examples could exceed what gRPC accepts.
    for (int64_t first = 0; first < guess.scores.rows(); first += kGuessRows) {
      v1::AttributeGuesses& message = messages.emplace_back();
      message.set_attack(guess.attack);
      message.set_attribute(guess.attribute);
      message.set_examples(guess.examples);
      message.set_first(static_cast<uint64_t>(first));
      const int64_t rows = std::min(kGuessRows, guess.scores.rows() - first);
      const ConstMatrixView part(guess.scores.row(first).data(), rows, guess.scores.cols());
      if (const absl::Status encoded = EncodeMatrix(part, v1::FLOAT32, *message.mutable_scores()); !encoded.ok()) {
        return absl::InternalError(absl::StrCat("attribute guesses: ", encoded.message()));
      }
    }
  }
  guessed_epoch_ = epoch;
  guesses_ = std::make_shared<const std::vector<v1::AttributeGuesses>>(std::move(messages));
  return guesses_;
}

}  // namespace splitveil
