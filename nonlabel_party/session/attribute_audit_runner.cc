#include "nonlabel_party/session/attribute_audit_runner.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/config/agreement.h"
#include "common/leakage/attribute_leak.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

absl::Status Refusal(const std::string& text) {
  return AsRefusal(absl::InvalidArgumentError(absl::StrCat("attribute guesses: ", text)));
}

// Where `element` stands in `list`; nullopt where it does not.
template <typename List, typename Element>
std::optional<int> PlaceIn(const List& list, const Element& element) {
  const auto found = std::find(list.begin(), list.end(), element);
  return found == list.end() ? std::nullopt : std::optional<int>(static_cast<int>(found - list.begin()));
}

const char* Name(v1::AttributeGuesses::Examples examples) {
  return examples == v1::AttributeGuesses::TEST ? "test" : "training";
}

}  // namespace

absl::Status AttributeAuditRunner::Check(const v1::RunAgreement& agreement, const Dataset& data) {
  const v1::Preprocessing& preprocessing = data.preprocessing();
  for (const std::string& attribute : agreement.attribute_audit().attributes()) {
    if (AttributeColumn(preprocessing, attribute) == preprocessing.attributes_size()) {
      const std::string names = absl::StrJoin(
          preprocessing.attributes(), ", ",
          [](std::string* out, const v1::AttributeValues& column) { absl::StrAppend(out, column.name()); });
      return absl::InvalidArgumentError(absl::StrCat(
          "attribute_audit.attributes: expected attributes of ", data.path(), " (",
          names.empty() ? "which has no column of kind ATTRIBUTE" : names, "), found \"", attribute, "\""));
    }
  }
  return absl::OkStatus();
}

AttributeAuditRunner::AttributeAuditRunner(Options options, const Dataset& data, absl::Span<const uint32_t> rows,
                                           const TrainTestSplit& split)
    : options_(std::move(options)) {
  const v1::AttributeAuditAgreement& audit = options_.agreement.attribute_audit();
  // Without attacks nothing is kept, and the ids need not be read.
  if (audit.attacks().empty()) {
    return;
  }
  const AttributeExamples examples = AttributeExamplesOf(options_.agreement, data, rows, split);
  auxiliary_ = examples.auxiliary;
  sample_ = DescribeSample(examples);
  const auto columns = static_cast<size_t>(data.preprocessing().attributes_size());
  for (const std::string& attribute : audit.attributes()) {
    const int column = AttributeColumn(data.preprocessing(), attribute);
    values_.push_back(data.preprocessing().attributes(column).values_size());
    const auto truth_of = [&](const std::vector<uint32_t>& positions) {
      std::vector<uint8_t> truth;
      truth.reserve(positions.size());
      for (const uint32_t position : positions) {
        truth.push_back(data.attributes()[rows[position] * columns + static_cast<size_t>(column)]);
      }
      return truth;
    };
    // The truth stays at this party; guesses come here, and figures of them do not go back (rule 10).
    test_truth_.push_back(truth_of(examples.test));
    // The attacks know the attribute of marked examples, so guesses at those would not be a leak.
    train_truth_.push_back(truth_of(examples.unmarked));
  }
  data.ReleaseMemory();  // Of the ids and the attributes.
}

absl::Status AttributeAuditRunner::RecordSample() const {
  return sample_.empty() ? absl::OkStatus() : options_.ledger->RecordEvent("attribute_sample", sample_);
}

bool AttributeAuditRunner::IsDue(uint32_t epoch, bool last) const {
  const v1::AttributeAuditAgreement& audit = options_.agreement.attribute_audit();
  return !audit.attacks().empty() && !test_truth_.front().empty() && (last || (epoch + 1) % audit.every_epochs() == 0);
}

absl::Status AttributeAuditRunner::Embed(uint32_t epoch) {
  if (!options_.agreement.attribute_audit().embed_auxiliary() || auxiliary_.empty()) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(EmbedExamples(*options_.peer, options_.source, auxiliary_, epoch));
  return options_.ledger->RecordEvent(
      "attribute_queries",
      absl::StrCat("activations of ", auxiliary_.size(), " auxiliary examples sent after epoch ", epoch));
}

absl::Status AttributeAuditRunner::Guess(uint32_t epoch) {
  v1::GuessAttributesRequest request;
  request.set_run_id(options_.source.run_id);
  request.set_epoch(epoch);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<GuessStream> stream, options_.peer->GuessAttributes(request));
  Series series;
  std::vector<AttributeLeakRow> rows;
  while (const std::optional<v1::AttributeGuesses> message = stream->Receive()) {
    // What still comes of a refused answer is dropped.
    if (absl::Status taken = Take(*message, series, rows); !taken.ok()) {
      stream->Finish().IgnoreError();
      return taken;
    }
  }
  // Nothing is judged before the whole answer has come: a repeated call must not record a part twice.
  SPLITVEIL_RETURN_IF_ERROR(stream->Finish());
  // A part would be a sample that the label party has chosen.
  if (!series.complete()) {
    return Refusal(absl::StrCat("expected ", series.scores.rows(), " examples, found ", series.rows));
  }
  for (AttributeLeakRow& row : rows) {
    row.epoch = epoch;
    SPLITVEIL_RETURN_IF_ERROR(options_.ledger->Record(row));
    Keep(row);
  }
  return RecordMissing(epoch, rows);
}

absl::Status AttributeAuditRunner::RecordMissing(uint32_t epoch, const std::vector<AttributeLeakRow>& rows) {
  const v1::AttributeAuditAgreement& audit = options_.agreement.attribute_audit();
  // A label party may keep its guesses to itself; the ledger must not look as if its attacks had failed.
  std::vector<std::string> missing;
  for (const int number : audit.attacks()) {
    const AttributeAttackTraits attack = TraitsOf(static_cast<v1::AttributeAttack>(number));
    for (int attribute = 0; attribute < audit.attributes_size(); ++attribute) {
      for (const Examples examples : {v1::AttributeGuesses::TEST, v1::AttributeGuesses::TRAINING}) {
        const bool tried = (examples == v1::AttributeGuesses::TEST || attack.reads_training()) &&
                           !TruthOf(attribute, examples).empty();
        const bool came = std::any_of(rows.begin(), rows.end(), [&](const AttributeLeakRow& row) {
          return row.attack == attack.name && row.attribute == audit.attributes(attribute) &&
                 row.examples == Name(examples);
        });
        if (tried && !came) {
          missing.push_back(
              absl::StrCat(attack.name, " at ", audit.attributes(attribute), " of ", Name(examples), " examples"));
        }
      }
    }
  }
  return missing.empty()
             ? absl::OkStatus()
             : options_.ledger->RecordEvent(
                   kGuessesMissing, absl::StrCat("after epoch ", epoch,
                                                 " none came from the label party: ", absl::StrJoin(missing, ", ")));
}

absl::Status AttributeAuditRunner::Take(const v1::AttributeGuesses& message, Series& series,
                                        std::vector<AttributeLeakRow>& rows) const {
  if (series.complete()) {
    SPLITVEIL_ASSIGN_OR_RETURN(Series next, SeriesOf(message));
    const bool first = series.examples == v1::AttributeGuesses::EXAMPLES_UNSPECIFIED;
    if (!first && PlaceOf(next) <= PlaceOf(series)) {
      return Refusal("attacks, attributes and examples must come in the agreed order, each once");
    }
    // In the agreed order and once: a second answer to the same question would let the label party choose the better
    // one.
    series = std::move(next);
  }
  const std::string& attribute = options_.agreement.attribute_audit().attributes(series.attribute);
  if (message.attack() != series.attack || message.attribute() != attribute || message.examples() != series.examples ||
      message.first() != static_cast<uint64_t>(series.rows)) {
    return Refusal(absl::StrCat("expected example ", series.rows, " of ", series.scores.rows(),
                                " of the attack and attribute that has begun"));
  }
  // The agreed rows of a message: a larger one is refused before its numbers are decoded.
  const int64_t count = std::min(kGuessRows, series.scores.rows() - series.rows), values = series.scores.cols();
  // The width first, with a reason: schemas that list different values are a common mistake of the parties.
  const v1::Tensor& tensor = message.scores();
  if (tensor.shape_size() == 2 && tensor.shape(1) != values) {
    return Refusal(absl::StrCat("expected scores of the ", values, " values that ", attribute,
                                " has in this party's schema, found ", tensor.shape(1),
                                ": the label party's schema lists different values"));
  }
  const absl::StatusOr<Matrix> scores = DecodeMatrix(tensor, {"attribute guesses", v1::FLOAT32, count, values});
  if (!scores.ok()) {
    return AsRefusal(scores.status());
  }
  std::copy_n(scores->data(), scores->size(), series.scores.data() + series.rows * values);
  series.rows += count;
  if (series.complete()) {
    rows.push_back(Judge(series));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttributeAuditRunner::Series> AttributeAuditRunner::SeriesOf(const v1::AttributeGuesses& message) const {
  const v1::AttributeAuditAgreement& audit = options_.agreement.attribute_audit();
  const std::optional<int> attribute = PlaceIn(audit.attributes(), message.attribute());
  if (!PlaceIn(audit.attacks(), static_cast<int>(message.attack())) || !attribute) {
    return Refusal("the attack or the attribute is not agreed");
  }
  const bool training = message.examples() == v1::AttributeGuesses::TRAINING;
  // Other attacks have not seen the training examples in any other way than the test examples.
  if (training ? !TraitsOf(message.attack()).reads_training() : message.examples() != v1::AttributeGuesses::TEST) {
    return Refusal("expected TEST examples, or TRAINING examples of an attack that reads the training");
  }
  Series series;
  series.attack = message.attack();
  series.attribute = *attribute;
  series.examples = message.examples();
  const std::vector<uint8_t>& truth = TruthOf(*attribute, message.examples());
  if (truth.empty()) {
    return Refusal("the run has no such examples to guess at");
  }
  series.scores = Matrix(static_cast<int64_t>(truth.size()), values_[static_cast<size_t>(*attribute)]);
  return series;
}

std::tuple<int, int, int> AttributeAuditRunner::PlaceOf(const Series& series) const {
  return {PlaceIn(options_.agreement.attribute_audit().attacks(), static_cast<int>(series.attack)).value_or(-1),
          series.attribute, static_cast<int>(series.examples)};
}

const std::vector<uint8_t>& AttributeAuditRunner::TruthOf(int attribute, Examples examples) const {
  return (examples == v1::AttributeGuesses::TEST ? test_truth_ : train_truth_)[static_cast<size_t>(attribute)];
}

AttributeLeakRow AttributeAuditRunner::Judge(const Series& series) const {
  const AttributeLeak leak = MeasureAttributeLeak(series.scores, TruthOf(series.attribute, series.examples));
  AttributeLeakRow row;
  row.attack = std::string(TraitsOf(series.attack).name);
  row.attribute = options_.agreement.attribute_audit().attributes(series.attribute);
  row.examples = Name(series.examples);
  row.rows = leak.examples;
  row.accuracy = leak.accuracy;
  row.accuracy_low = leak.accuracy_low;
  row.accuracy_high = leak.accuracy_high;
  row.floor = leak.floor;
  row.auc = leak.auc;
  return row;
}

void AttributeAuditRunner::Keep(const AttributeLeakRow& row) {
  if (row.rows == 0) {
    return;
  }
  const auto kept = std::find_if(figures_.begin(), figures_.end(), [&](const AttributeLeakRow& figure) {
    return figure.attribute == row.attribute && figure.attack == row.attack && figure.examples == row.examples;
  });
  if (kept == figures_.end()) {
    figures_.push_back(row);
    return;
  }
  // An attack on the training has already seen what an earlier epoch showed, so its best epoch counts; others are
  // judged by the model as it is now.
  const std::optional<v1::AttributeAttack> attack = AttributeAttackOfName(row.attack);
  const bool highest = attack.has_value() && TraitsOf(*attack).reads_training();
  if (!highest || row.accuracy > kept->accuracy) {
    *kept = row;
  }
}

std::vector<AttributeLeakRow> AttributeAuditRunner::strongest() const {
  std::vector<AttributeLeakRow> strongest;
  for (const std::string& attribute : options_.agreement.attribute_audit().attributes()) {
    const AttributeLeakRow* best = nullptr;
    for (const AttributeLeakRow& row : figures_) {
      if (row.attribute == attribute && (best == nullptr || row.advantage() > best->advantage())) {
        best = &row;
      }
    }
    if (best != nullptr) {
      strongest.push_back(*best);
    }
  }
  return strongest;
}

}  // namespace splitveil
