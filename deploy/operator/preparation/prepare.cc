#include "deploy/operator/preparation/prepare.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/column_drift.h"
#include "deploy/operator/preparation/column_holders.h"
#include "deploy/operator/preparation/dataset_writer.h"
#include "deploy/operator/preparation/preprocessor.h"
#include "deploy/operator/preparation/seeded_draws.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/crypto/digest.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/section_file.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

// Streams of the seed's draws; the ids have a key of their own.
constexpr uint64_t kMembershipStream = 1;
constexpr uint64_t kLabelOrderStream = 2;
constexpr uint64_t kNonlabelOrderStream = 3;

// A shuffle of rows with images holds fewer of them.
constexpr int64_t kShuffleBufferBytes = int64_t{64} << 20;

absl::Status CheckOptions(const PrepareOptions& options) {
  // Written so that NaN fails too.
  const auto is_fraction = [](double value) { return value >= 0 && value < 1; };
  // Together below 1, or no row would be common and nothing could be trained.
  if (!is_fraction(options.only_label_fraction) || !is_fraction(options.only_nonlabel_fraction) ||
      !is_fraction(options.only_label_fraction + options.only_nonlabel_fraction)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "only_label_fraction, only_nonlabel_fraction: expected each in [0, 1) and together below 1, found ",
        options.only_label_fraction, " and ", options.only_nonlabel_fraction));
  }
  if (!(options.min_usable_share >= 0 && options.min_usable_share <= 1) || options.expected_rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_usable_share, rows: expected a number in [0, 1] and at least 0, "
                     "found ",
                     options.min_usable_share, " and ", options.expected_rows));
  }
  if (options.shuffle_buffer_rows < 1 || options.hash_buckets < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shuffle_buffer_rows, hash_buckets: expected at least 1 and 0, found ",
                     options.shuffle_buffer_rows, " and ", options.hash_buckets));
  }
  if (options.only_applies && (options.extend_dir.empty() || options.parties == Schema::BOTH)) {
    return absl::InvalidArgumentError(
        "to apply earlier preprocessing, name its data (--fitted) and one party's table (--party)");
  }
  return absl::OkStatus();
}

// Of prepared data; empty: there are none, or damaged ones.
std::string DigestAt(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<SectionFile>> file = SectionFile::Open(path, SectionFile::Check::kStructure);
  return file.ok() ? std::string(AsBytes((*file)->digest())) : "";
}

// One party's half of the work.
struct Party {
  Schema::Holder role;
  std::string path;
  Preprocessor preprocessor;
  std::unique_ptr<DatasetWriter> writer;
  std::unique_ptr<ShuffledRows> rows;
  int64_t test_rows = 0, validation_rows = 0;
};

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options) : options_(options) {}

  absl::StatusOr<PrepareResult> Run() {
    // Nothing is written before both passes agree; nothing appears under its name before Publish.
    for (absl::Status (Preparation::*stage)() :
         {&Preparation::OpenParties, &Preparation::Fit, &Preparation::OpenOutputs, &Preparation::Encode,
          &Preparation::Publish}) {
      SPLITVEIL_RETURN_IF_ERROR((this->*stage)());
    }
    return std::move(result_);
  }

 private:
  absl::Status OpenParties();
  absl::Status Fit();
  absl::Status OpenOutputs();
  absl::Status Encode();
  // Preprocessing.warnings.
  std::vector<std::string> WarningsOf(const Party& party) const;
  absl::Status Publish();
  // Reads all rows from the start and gives each to the parties that hold it. Also counts them.
  absl::Status ForEachRow(absl::FunctionRef<absl::Status(const TableRow&, Party&)> visit);

  std::string IdColumn() const;
  // Takes a row's label or target into the result.
  void Count(const TableRow& row);
  void CountVariety(const TableRow& row, SplitPart part);
  absl::Status CheckVariety() const;
  absl::Status CheckProfile() const;

  const PrepareOptions& options_;
  std::optional<RowSplit> split_;             // From OpenParties on.
  std::optional<TableColumns::Label> label_;  // Nullopt: the table has none.
  std::vector<Party> parties_;
  PrepareResult result_;
  bool fitted_ = false;
  LabelVariety training_labels_, test_labels_, validation_labels_;  // Of the label party's rows.
};

std::string FileName(Schema::Holder role) {
  return role == Schema::LABEL_PARTY ? "label_party.data" : "nonlabel_party.data";
}

// The data of an earlier table cannot be made again from this one.
absl::Status CheckStays(const std::string& earlier, const std::string& path) {
  std::error_code ignored;
  return std::filesystem::equivalent(earlier, path, ignored)
             ? absl::InvalidArgumentError(absl::StrCat(path,
                                                       ": expected another file than the earlier data whose encoding "
                                                       "is applied, found these: name another folder with --out"))
             : absl::OkStatus();
}

absl::Status Preparation::OpenParties() {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> rows, RowSource::Open(options_.rows));
  TableColumns columns = rows->columns();
  SPLITVEIL_RETURN_IF_ERROR(SettleHolders(options_.parties, options_.only_applies, columns));
  SPLITVEIL_ASSIGN_OR_RETURN(
      split_, RowSplit::Create({options_.test_fraction, options_.auxiliary_fraction, options_.validation_fraction,
                                options_.split_salt, options_.test_after},
                               columns));
  label_ = columns.label;
  for (const Schema::Holder role : {Schema::LABEL_PARTY, Schema::NONLABEL_PARTY}) {
    if (options_.parties != Schema::BOTH && options_.parties != role) {
      continue;
    }
    const std::string path = std::filesystem::path(options_.out_dir) / FileName(role);
    Preprocessor::Options preprocessing;
    preprocessing.holder = role;
    preprocessing.only_applies = options_.only_applies;
    preprocessing.allowed_changes = options_.rows.allowed_changes.value_or(std::vector<std::string>());
    preprocessing.hash_buckets = options_.hash_buckets;
    preprocessing.rare_below = options_.rows.schema.rare_below();
    preprocessing.scaling = options_.scaling;
    if (!options_.extend_dir.empty()) {
      const std::string earlier = std::filesystem::path(options_.extend_dir) / FileName(role);
      // Before the passes over the table, which may take an hour.
      SPLITVEIL_RETURN_IF_ERROR(CheckStays(earlier, path));
      SPLITVEIL_ASSIGN_OR_RETURN(preprocessing.extends, Dataset::Open(earlier));
    }
    SPLITVEIL_ASSIGN_OR_RETURN(Preprocessor preprocessor, Preprocessor::Create(columns, preprocessing));
    parties_.push_back({role, path, std::move(preprocessor), nullptr, nullptr, 0, 0});
  }
  return absl::OkStatus();
}

absl::Status Preparation::ForEachRow(absl::FunctionRef<absl::Status(const TableRow&, Party&)> visit) {
  RowSource::Options source = options_.rows;
  // A profile of both passes would count each row twice.
  source.profile = fitted_ ? nullptr : source.profile;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<RowSource> rows, RowSource::Open(source));
  // Every row is read twice, to fit and to encode: the counts are those of the latest reading.
  result_ = {};
  // From the start in each pass: fitting and encoding must see the same rows at the same party.
  SeededDraws membership(options_.rows.seed, kMembershipStream);
  int64_t drawn = 0;
  TableRow row;
  while (true) {
    const absl::StatusOr<bool> more = rows->Next(row);
    if (!more.ok() || !*more) {
      result_.skipped = rows->skipped();
      result_.files = rows->files();
      SPLITVEIL_RETURN_IF_ERROR(more.status());
      const std::string& table = options_.rows.input_paths.front();
      SPLITVEIL_RETURN_IF_ERROR(rows->pattern().Check(table));
      // The halves of one table have the same ids, however they are written.
      SPLITVEIL_RETURN_IF_ERROR(options_.parties == Schema::BOTH
                                    ? absl::OkStatus()
                                    : rows->ids().Check(table, IdColumn(), IdFormsOf(options_.rows.schema)));
      result_.ids = rows->ids();
      return CheckUsableRows({options_.min_usable_share, options_.expected_rows}, table, result_.rows, *rows);
    }
    // One draw for every row of the table, so that a row left out changes nothing for the others.
    double draw = 0;
    for (; drawn <= rows->row_number(); ++drawn) {
      draw = membership.Uniform();
    }
    ++result_.rows;
    Count(row);
    const bool split = parties_.size() == 2;
    const bool only_label = split && draw < options_.only_label_fraction;
    const bool only_nonlabel =
        split && !only_label && draw < options_.only_label_fraction + options_.only_nonlabel_fraction;
    result_.common_rows += only_label || only_nonlabel ? 0 : 1;
    for (Party& party : parties_) {
      if (party.role == Schema::LABEL_PARTY ? only_nonlabel : only_label) {
        continue;
      }
      SPLITVEIL_RETURN_IF_ERROR(visit(row, party));
    }
  }
}

std::string Preparation::IdColumn() const {
  const auto& columns = options_.rows.schema.columns();
  const auto id = std::find_if(columns.begin(), columns.end(),
                               [](const Schema::Column& column) { return column.kind() == Schema::ID; });
  return id == columns.end() ? "" : id->name();
}

void Preparation::Count(const TableRow& row) {
  if (!label_.has_value()) {
    return;
  }
  switch (label_->task.kind) {
    case Task::Kind::kBinary:
      result_.positives += row.label;
      break;
    case Task::Kind::kMultiClass:
      result_.class_rows.resize(label_->classes.size());
      ++result_.class_rows[row.label];
      break;
    case Task::Kind::kRegression: {
      const double clipped = std::clamp(row.target, label_->minimum, label_->maximum);
      result_.clipped_targets += clipped != row.target ? 1 : 0;
      const double before = result_.rows > 1 ? result_.target_mean : 0;
      // Parts of each, because the sum of two doubles may overflow.
      const auto rows = static_cast<double>(result_.rows);
      result_.target_mean = before - before / rows + clipped / rows;
    }
  }
}

void Preparation::CountVariety(const TableRow& row, SplitPart part) {
  const bool is_number = label_->task.kind == Task::Kind::kRegression;
  LabelVariety& labels = part == SplitPart::kTest         ? test_labels_
                         : part == SplitPart::kValidation ? validation_labels_
                                                          : training_labels_;
  // As they are encoded: targets that are all clipped to one end are all alike.
  labels.Add(is_number ? std::clamp(row.target, label_->minimum, label_->maximum) : row.label);
}

absl::Status Preparation::CheckVariety() const {
  const std::string& table = options_.rows.input_paths.front();
  SPLITVEIL_RETURN_IF_ERROR(CheckTrainingLabels(table, training_labels_));
  for (const auto& [part, rule, labels] : {std::tuple("test", split_->TestRule(), &test_labels_),
                                           std::tuple("validation", split_->ValidationRule(), &validation_labels_)}) {
    SPLITVEIL_RETURN_IF_ERROR(rule.empty() ? absl::OkStatus() : CheckHeldOutLabels(table, part, rule, *labels));
  }
  return absl::OkStatus();
}

absl::Status Preparation::CheckProfile() const {
  const std::vector<std::string> warnings = ProfileWarnings(options_.rows.schema, *options_.rows.profile);
  return warnings.empty()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(options_.rows.input_paths.front(), ": ", warnings.front(),
                                                       "; --strict makes this an error"));
}

absl::Status Preparation::Fit() {
  absl::Status status = ForEachRow([&](const TableRow& row, Party& party) {
    SPLITVEIL_ASSIGN_OR_RETURN(const SplitPart part, split_->PartOf(row));
    if (party.role == Schema::LABEL_PARTY && label_.has_value() && part != SplitPart::kAuxiliary) {
      CountVariety(row, part);
    }
    party.test_rows += part == SplitPart::kTest ? 1 : 0;
    party.validation_rows += part == SplitPart::kValidation ? 1 : 0;
    return party.preprocessor.Fit(row, part == SplitPart::kTraining);
  });
  const std::string& table = options_.rows.input_paths.front();
  if (status.ok() && result_.rows == 0) {
    status = absl::InvalidArgumentError(absl::StrCat(table, ": expected usable rows, found none"));
  }
  if (status.ok() && label_.has_value() && !options_.only_applies) {
    status = CheckVariety();
  }
  if (status.ok() && options_.strict) {
    status = CheckProfile();
  }
  for (Party& party : parties_) {
    status.Update(status.ok() ? party.preprocessor.FinishFit() : absl::OkStatus());
  }
  fitted_ = true;
  return status;
}

absl::Status Preparation::OpenOutputs() {
  if (const std::error_code error = MakeFolders(options_.out_dir); error) {
    return absl::InvalidArgumentError(absl::StrCat(options_.out_dir, ": cannot be made a folder: ", error.message()));
  }
  for (Party& party : parties_) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        std::unique_ptr<DatasetWriter> writer,
        DatasetWriter::Create(party.path, party.preprocessor.task(),
                              !party.preprocessor.preprocessing().attributes().empty(), split_->by_tables()));
    party.writer = std::move(writer);
    const v1::ImageSize& image = party.preprocessor.preprocessing().image();
    const int64_t pixels = image.channels() * image.height() * image.width();
    // A party's own table keeps its order.
    // By bytes: an image takes as much memory as hundreds of plain rows.
    const int64_t buffer_rows =
        parties_.size() == 1 ? 1
                             : std::clamp<int64_t>(kShuffleBufferBytes / (pixels + 1), 1, options_.shuffle_buffer_rows);
    // Orders of their own: in one common order, a row's place would already link the parties' rows.
    const uint64_t stream = party.role == Schema::LABEL_PARTY ? kLabelOrderStream : kNonlabelOrderStream;
    party.rows =
        std::make_unique<ShuffledRows>(party.writer.get(), buffer_rows, SeededDraws(options_.rows.seed, stream));
  }
  return absl::OkStatus();
}

absl::Status Preparation::Encode() {
  const int64_t fitted_rows = result_.rows;
  absl::Status status = ForEachRow([this](const TableRow& row, Party& party) {
    EncodedRow encoded;
    encoded.id = std::string(row.id);
    SPLITVEIL_ASSIGN_OR_RETURN(encoded.part, split_->PartOf(row));
    party.preprocessor.Encode(row, encoded);
    party.preprocessor.Count(row, encoded);
    return party.rows->Add(std::move(encoded));
  });
  // A file that grew meanwhile would be encoded by scales that were fitted on other rows.
  if (status.ok() && result_.rows != fitted_rows) {
    status = absl::InvalidArgumentError(absl::StrCat(options_.rows.input_paths.front(), ": changed while it was read"));
  }
  for (Party& party : parties_) {
    party.preprocessor.FinishCounts();
    // Nothing is written that the model cannot do anything with.
    status.Update(status.ok()
                      ? CheckColumnsAreThere(options_.rows.input_paths.front(), party.preprocessor.preprocessing())
                      : absl::OkStatus());
  }
  return status;
}

std::vector<std::string> Preparation::WarningsOf(const Party& party) const {
  std::vector<std::string> warnings = party.preprocessor.writing_warnings();
  const Schema& schema = options_.rows.schema;
  if (options_.rows.profile == nullptr) {
    return warnings;
  }
  const TableProfile& profile = *options_.rows.profile;
  for (std::string& warning : DescribeNewNumbers(schema, profile, party.preprocessor.preprocessing())) {
    warnings.push_back(std::move(warning));
  }
  // Where scales are fitted, the profile of all columns has them.
  for (int i = 0; i < schema.columns_size() && options_.only_applies; ++i) {
    const ColumnProfile& column = profile.columns[static_cast<size_t>(i)];
    const std::string units = schema.columns(i).kind() == Schema::NUMERIC ? DescribeUnits(column) : "";
    if (!units.empty()) {
      warnings.push_back(absl::StrCat("column \"", OneLine(column.name()), "\": ", units));
    }
  }
  return warnings;
}

absl::Status Preparation::Publish() {
  std::vector<DatasetWriter*> writers;
  for (Party& party : parties_) {
    v1::Preprocessing preprocessing = party.preprocessor.preprocessing();
    split_->Describe(preprocessing);
    for (const v1::IdForm form : IdFormsOf(options_.rows.schema)) {
      preprocessing.add_id_form(form);
    }
    const std::vector<std::string> warnings = WarningsOf(party);
    preprocessing.mutable_warnings()->Assign(warnings.begin(), warnings.end());
    absl::Status status = party.rows->Flush();
    status.Update(party.writer->Finish(preprocessing, party.preprocessor.vocabularies()));
    if (!status.ok()) {
      return status;
    }
    preprocessing.set_rows(party.writer->rows());
    if (label_.has_value() && party.role == Schema::LABEL_PARTY && label_->task.kind == Task::Kind::kBinary) {
      preprocessing.set_positives(party.writer->positives());
    }
    result_.parties.push_back({party.path, std::move(preprocessing), party.test_rows, party.validation_rows, false});
    writers.push_back(party.writer.get());
  }
  // Other data may be those that a model was trained on, and then nothing else has their scales.
  if (options_.keeps_other_data) {
    const absl::Status status = DatasetWriter::Publish(writers, Replaces::kSameBytes);
    return absl::IsAlreadyExists(status)
               ? absl::AlreadyExistsError(absl::StrCat(status.message(), ": give another --out"))
               : status;
  }
  std::vector<std::string> before;
  for (const PreparedParty& party : result_.parties) {
    // To say that other data were replaced: runs and checkpoints made from those no longer match.
    before.push_back(DigestAt(party.path));
  }
  // Both parties' files or neither: halves of two preparations would share ids, but not their split.
  SPLITVEIL_RETURN_IF_ERROR(DatasetWriter::Publish(writers));
  for (size_t i = 0; i < before.size(); ++i) {
    PreparedParty& party = result_.parties[i];
    party.replaced_others = !before[i].empty() && before[i] != DigestAt(party.path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PrepareResult> Prepare(const PrepareOptions& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  return Preparation(options).Run();
}

}  // namespace splitveil
