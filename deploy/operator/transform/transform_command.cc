#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/drift/drift_table.h"
#include "deploy/operator/party_config/party_config.h"
#include "deploy/operator/preparation/column_drift.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/records/figure_cells.h"

#include "common/config/text_config.h"
#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {
namespace {

// Prepared data as a table for other programs.

constexpr int64_t kRowsAtOnce = 1024;

std::string Header(const v1::Preprocessing& preprocessing, bool has_labels) {
  std::string header = "id";
  for (const v1::NumericScaling& column : preprocessing.numeric()) {
    absl::StrAppend(&header, ",", CsvCell(column.name()));
  }
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    absl::StrAppend(&header, ",", CsvCell(column.name()));
  }
  return absl::StrCat(header, has_labels ? ",label" : "", "\n");
}

void AppendLabel(const Dataset& data, uint32_t row, std::string& line) {
  if (!data.targets().empty()) {
    absl::StrAppendFormat(&line, ",%.9g", data.targets()[row]);
  } else if (!data.labels().empty()) {
    absl::StrAppend(&line, ",", int{data.labels()[row]});
  }
}

// Whether the cells behind the id are numbers in [0, 1], or near if they are not clipped, and rows of the embedding
// table.
bool IsEncodedRow(absl::string_view line, const v1::Preprocessing& preprocessing, bool has_labels) {
  std::vector<absl::string_view> cells = absl::StrSplit(line, ',');  // An id may have commas, too.
  const auto numeric = static_cast<size_t>(preprocessing.numeric_size());
  const size_t features = numeric + static_cast<size_t>(preprocessing.categorical_size());
  if (cells.size() < features + (has_labels ? 2 : 1)) {
    return false;
  }
  const size_t first = cells.size() - features - (has_labels ? 1 : 0);
  for (size_t i = 0; i < features; ++i) {
    double number = 0;
    int64_t row = 0;
    const double margin =
        i < numeric && preprocessing.numeric(static_cast<int>(i)).scaling() == v1::TableSchema::MIN_MAX ? 1 : 0;
    if (!absl::SimpleAtod(cells[first + i], &number) || (i < numeric && !(number >= -margin && number <= 1 + margin)) ||
        (i >= numeric &&
         !(absl::SimpleAtoi(cells[first + i], &row) && row >= 0 && row < preprocessing.embedding_rows()))) {
      return false;
    }
  }
  return true;
}

// Whether WriteDataTable may replace what `path` is of, if anything, with data of this preprocessing: an earlier table
// of the same columns, with the same first line. Error: AlreadyExists.
absl::Status CheckDataTablePath(const std::string& path, const v1::Preprocessing& preprocessing, bool has_labels) {
  const std::string header = Header(preprocessing, has_labels);
  SPLITVEIL_RETURN_IF_ERROR(CheckOwnTable(path, header));
  // A table that is still to be encoded may have the same columns: its rows tell.
  std::ifstream file(path);
  std::string row;
  file.ignore(static_cast<std::streamsize>(header.size()));
  return !std::getline(file, row) || IsEncodedRow(row, preprocessing, has_labels)
             ? absl::OkStatus()
             : absl::AlreadyExistsError(absl::StrCat(
                   path,
                   ": expected an earlier table of encoded rows, found other rows under the same columns; it stays"));
}

// Writes `path` as CSV (RFC 4180), readable by its owner alone, complete or not at all: "id", the numeric columns as
// scaled, each categorical column as the row of the embedding table, and, where there are labels, "label": 0 or 1, the
// number of the class, or the number in [0, 1]. What an exported model takes (deploy/examples/bring_your_own). Images
// and attributes are left out. Errors: those of CheckDataTablePath and PendingFile.
absl::Status WriteDataTable(const std::string& path, const Dataset& data) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDataTablePath(path, data.preprocessing(), data.has_labels()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(Header(data.preprocessing(), data.has_labels())));
  const int64_t pixels = data.features().image.pixels(), categorical = data.features().categorical;
  for (int64_t first = 0; first < data.rows(); first += kRowsAtOnce) {
    std::vector<uint32_t> rows(static_cast<size_t>(std::min(kRowsAtOnce, data.rows() - first)));
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first));
    const FeatureBatch batch = data.Gather(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string line = CsvCell(std::string(data.ids()[rows[i]]));
      for (int64_t column = pixels; column < batch.numeric.cols(); ++column) {
        absl::StrAppendFormat(&line, ",%.9g", batch.numeric.row(static_cast<int64_t>(i))[column]);
      }
      for (int64_t column = 0; column < categorical; ++column) {
        absl::StrAppend(&line, ",", batch.categories[i * static_cast<size_t>(categorical) + column]);
      }
      AppendLabel(data, rows[i], line);
      line += '\n';
      SPLITVEIL_RETURN_IF_ERROR(file->Append(line));
    }
  }
  PendingFile* const all[] = {file.get()};
  return PendingFile::Publish(all);
}

struct TransformFlags {
  std::string schema, party, csv;
  bool unlabelled = false;
  std::vector<std::string> allowed_changes;
  PrepareOptions options;  // All but schema and party.
};

bool IsPredicted(v1::TableSchema::Kind kind) {
  return kind == v1::TableSchema::LABEL || kind == v1::TableSchema::CLASS_LABEL || kind == v1::TableSchema::TARGET;
}

// Nothing is split and nothing left out: a column that only says how may be missing from the table.
void DropUnused(v1::TableSchema& schema) {
  for (v1::TableSchema::Column& column : *schema.mutable_columns()) {
    if (column.kind() == v1::TableSchema::GROUP || column.kind() == v1::TableSchema::TIME) {
      column.set_kind(v1::TableSchema::IGNORE);
      column.clear_time_zone();  // Only a TIME has it.
    }
    // Without a header line the place of each column counts.
    column.set_optional(column.optional() || (schema.header() && column.kind() == v1::TableSchema::IGNORE));
  }
}

absl::Status CheckAllowedChanges(const TransformFlags& flags, const v1::TableSchema& schema) {
  for (const std::string& name : flags.allowed_changes) {
    const bool is_feature = std::any_of(schema.columns().begin(), schema.columns().end(), [&](const auto& column) {
      return column.name() == name && (column.kind() == v1::TableSchema::NUMERIC ||
                                       column.kind() == v1::TableSchema::CATEGORICAL || column.also_feature());
    });
    if (!is_feature) {
      return absl::InvalidArgumentError(
          absl::StrCat("command line: --allow_changed: expected a column of kind NUMERIC or CATEGORICAL in ",
                       flags.schema, ", found ", OneLine(name)));
    }
  }
  return absl::OkStatus();
}

// Of the same table without the column that is to be predicted.
void DropLabel(v1::TableSchema& schema) {
  v1::TableSchema without = schema;
  without.clear_columns();
  without.clear_positive();
  without.clear_negative();
  without.clear_classes();
  without.clear_target_minimum();
  without.clear_target_maximum();
  for (const v1::TableSchema::Column& column : schema.columns()) {
    if (!IsPredicted(column.kind())) {
      *without.add_columns() = column;
    }
  }
  schema = without;
}

std::string DriftPath(const TransformFlags& flags) {
  return absl::StrCat(flags.options.out_dir, "/", flags.party, ".drift.csv");
}

// What is read, and what else is written, is not to be replaced by the table; neither is anything but an earlier table.
// `schema`: of the rows that are read.
absl::Status CheckCsv(const TransformFlags& flags, const v1::TableSchema& schema) {
  if (flags.csv.empty()) {
    return absl::OkStatus();
  }
  const std::string fitted = absl::StrCat(flags.options.extend_dir, "/", flags.party, ".data");
  std::vector<std::string> others = flags.options.rows.input_paths;
  others.insert(others.end(), {flags.schema, fitted, absl::StrCat(flags.options.out_dir, "/", flags.party, ".data"),
                               DriftPath(flags)});
  if (!flags.options.rows.images_path.empty()) {
    others.push_back(flags.options.rows.images_path);
  }
  for (const std::string& other : others) {
    if (NameSameFile(flags.csv, other)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "command line: --csv: expected a different file than those that are read or written, found ", other));
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, Dataset::Open(fitted));
  const bool has_labels = std::any_of(schema.columns().begin(), schema.columns().end(),
                                      [](const auto& column) { return IsPredicted(column.kind()); });
  return CheckDataTablePath(flags.csv, data->preprocessing(), has_labels);
}

absl::StatusOr<ExitCode> Transform(const TransformFlags& flags) {
  PrepareOptions options = flags.options;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(flags.schema, options.rows.schema));
  SPLITVEIL_RETURN_IF_ERROR(CheckAllowedChanges(flags, options.rows.schema));
  options.rows.allowed_changes = flags.allowed_changes;
  DropUnused(options.rows.schema);
  if (flags.unlabelled) {
    DropLabel(options.rows.schema);
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckCsv(flags, options.rows.schema));
  SPLITVEIL_RETURN_IF_ERROR(CheckDriftTablePath(DriftPath(flags)));
  options.parties = flags.party == kLabelPartyRole ? v1::TableSchema::LABEL_PARTY : v1::TableSchema::NONLABEL_PARTY;
  options.only_applies = true;
  options.test_fraction = options.validation_fraction = 0;
  TableProfile profile = EmptyProfile(options.rows.schema);
  options.rows.profile = &profile;
  SPLITVEIL_ASSIGN_OR_RETURN(const PrepareResult result, Prepare(options));
  const PreparedParty& party = result.parties.front();
  if (!flags.csv.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, Dataset::Open(party.path));
    SPLITVEIL_RETURN_IF_ERROR(WriteDataTable(flags.csv, *data));
  }
  const std::vector<ColumnDrift> drifts = CompareColumns(party.preprocessing);
  SPLITVEIL_RETURN_IF_ERROR(WriteDriftTable(DriftPath(flags), drifts));
  std::printf("%s%s: %lld rows%s%s\n", LeftOutText(result.skipped, result.files).c_str(), party.path.c_str(),
              static_cast<long long>(party.preprocessing.rows()),
              result.files > 1 ? absl::StrCat(" of ", result.files, " files").c_str() : "",
              party.preprocessing.unlabelled() ? ", without labels" : "");
  std::printf("%s%s  as a table: %s\n", DriftText(drifts).c_str(), ReadingWarnings(party.preprocessing).c_str(),
              DriftPath(flags).c_str());
  return ExitCode::kDone;
}

}  // namespace

void AddTransformCommand(CommandLine& line) {
  const auto flags = std::make_shared<TransformFlags>();
  CLI::App& command = line.AddCommand(
      {"transform", "Encode new rows with the scales and vocabularies of earlier data, for predictions or for Python.",
       "splitveil transform --fitted=bank --party=label_party --schema=bank.schema.textproto --unlabelled "
       "--input=new.csv --out=new",
       "After a run"},
      [flags] { return Transform(*flags); });
  AddValue(command, "--fitted=DIR", flags->options.extend_dir,
           "Folder of the party's data whose scales and vocabularies are applied.")
      ->required();
  AddValue(command, "--party=PARTY", flags->party, "Whose table it is.")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}))
      ->required();
  AddValue(command, "--schema=FILE", flags->schema, "Meaning of the columns, as for `splitveil prepare`.")->required();
  command.add_flag("--unlabelled", flags->unlabelled, "The table lacks the schema's LABEL, CLASS_LABEL or TARGET.");
  AddValue(
      command, "--input=FILE", flags->options.rows.input_paths,
      "File of the table, plain or .gz, .zst or .xz; a folder or a pattern of files with one header line each; or -, "
      "standard input.")
      ->required();
  AddValue(command, "--images=PATH", flags->options.rows.images_path,
           "For a schema with images: the folder of their files, or one array file with all of them.");
  command.add_flag("--skip_bad_rows", flags->options.rows.skip_bad_rows,
                   "Skip unusable rows instead of stopping at the first.");
  AddValue(command, "--min_usable_share=SHARE", flags->options.min_usable_share,
           "With --skip_bad_rows: minimum share of usable rows.")
      ->check(NumberIn(0, 1));
  AddValue(command, "--allow_changed=COLUMN", flags->allowed_changes,
           "Column that may be missing from the table, or have only values that the training never saw.");
  AddValue(command, "--out=DIR", flags->options.out_dir,
           "Folder for the party's data, and for PARTY.drift.csv: how each column differs from the training data.")
      ->required();
  command.add_flag("--keep", flags->options.keeps_other_data,
                   "Fail if --out has different data. By default they are replaced; data of --fitted never are.");
  AddValue(
      command, "--csv=FILE", flags->csv,
      "Also write ids, scaled numbers and category indices to this CSV file, readable only by its owner. Overwrites "
      "only an earlier table of the same columns.");
}

}  // namespace splitveil
