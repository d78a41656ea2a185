#include "common/preparation/prepare.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

#include "common/config/text_config.h"
#include "common/preparation/known_tables.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<v1::TableSchema> SchemaOf(const Flags& flags) {
  const std::string& format = flags.Get("format");
  const std::string& path = flags.Get("schema");
  if (format == "criteo" || format == "avazu") {
    if (!path.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("command line: --schema: expected none for ", format));
    }
    return format == "criteo" ? CriteoSchema() : AvazuSchema();
  }
  if (format != "table") {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --format: expected criteo, avazu or table, found \"", format, "\""));
  }
  if (path.empty()) {
    return absl::InvalidArgumentError("command line: --schema: expected the schema of the table, found none");
  }
  v1::TableSchema schema;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(path, schema));
  return schema;
}

absl::StatusOr<v1::TableSchema::Holder> PartiesOf(const std::string& party) {
  if (party == "both") {
    return v1::TableSchema::BOTH;
  }
  if (party == "label_party") {
    return v1::TableSchema::LABEL_PARTY;
  }
  if (party == "nonlabel_party") {
    return v1::TableSchema::NONLABEL_PARTY;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("command line: --party: expected both, label_party or nonlabel_party, found \"", party, "\""));
}

absl::StatusOr<PrepareOptions> OptionsOf(const Flags& flags) {
  PrepareOptions options;
  absl::StatusOr<v1::TableSchema> schema = SchemaOf(flags);
  const absl::StatusOr<v1::TableSchema::Holder> parties = PartiesOf(flags.Get("party"));
  const absl::StatusOr<int64_t> seed = flags.GetInt("seed", 0);
  const absl::StatusOr<int64_t> hash_buckets = flags.GetInt("hash_buckets", 0);
  const absl::StatusOr<int64_t> image_size = flags.GetInt("image_size", 0, 4096);
  for (const absl::Status& status :
       {schema.status(), parties.status(), seed.status(), hash_buckets.status(), image_size.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  options.rows.input_paths = flags.GetList("input");
  options.rows.schema = *std::move(schema);
  options.rows.seed = static_cast<uint64_t>(*seed);
  options.rows.images_path = flags.Get("images");
  options.rows.image_size = *image_size;
  options.rows.skip_bad_rows = flags.GetSwitch("skip_bad_rows");
  options.out_dir = flags.Get("out");
  options.parties = *parties;
  options.hash_buckets = *hash_buckets;
  options.split_salt = flags.Get("split_salt");
  options.extend_dir = flags.Get("extend");
  for (const auto& [name, fraction] : {std::pair{"only_label_fraction", &options.only_label_fraction},
                                       std::pair{"only_nonlabel_fraction", &options.only_nonlabel_fraction},
                                       std::pair{"test_fraction", &options.test_fraction}}) {
    SPLITVEIL_ASSIGN_OR_RETURN(*fraction, flags.GetDouble(name, 0, 1));
  }
  return options;
}

// "NAME VALUE" of all columns; `value` of a column's missing cells and vocabulary.
void PrintColumns(const v1::Preprocessing& preprocessing) {
  if (preprocessing.numeric().empty() && preprocessing.categorical().empty()) {
    return;
  }
  const auto rows = static_cast<double>(preprocessing.rows());
  std::printf("  missing (%% of the rows):");
  for (const v1::NumericScaling& column : preprocessing.numeric()) {
    std::printf(" %s %.1f", column.name().c_str(), 100.0 * static_cast<double>(column.missing()) / rows);
  }
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    std::printf(" %s %.1f", column.name().c_str(), 100.0 * static_cast<double>(column.missing()) / rows);
  }
  std::printf("\n  embedding rows: %lld", static_cast<long long>(preprocessing.embedding_rows()));
  if (preprocessing.has_extends_sha256()) {
    std::printf(", %lld of them new",
                static_cast<long long>(preprocessing.embedding_rows() - preprocessing.extended_embedding_rows()));
  }
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    long long values = 0;
    for (const v1::CategoryIndex::Block& block : column.blocks()) {
      values += block.rows();
    }
    std::printf("%s %s %lld", column.name() == preprocessing.categorical(0).name() ? ":" : "", column.name().c_str(),
                values);
  }
  std::printf("\n");
}

// Of a damaged file it is not known how many rows were behind the damage.
void PrintLeftOut(const FaultCounts& skipped, size_t files) {
  for (size_t fault = 1; fault < skipped.size(); ++fault) {
    const auto count = static_cast<long long>(skipped[fault]);
    if (count > 0 && static_cast<RowFault>(fault) == RowFault::kFile) {
      std::printf("left out: %s: all from the damage on, in %lld of %zu files\n", kRowFaultNames[fault], count, files);
    } else if (count > 0) {
      std::printf("left out: %s: %lld rows\n", kRowFaultNames[fault], count);
    }
  }
}

void PrintResult(const PrepareOptions& options, const PrepareResult& result) {
  std::string inputs = options.rows.input_paths.front();
  for (size_t i = 1; i < options.rows.input_paths.size(); ++i) {
    absl::StrAppend(&inputs, ", ", options.rows.input_paths[i]);
  }
  std::printf("%s: %lld rows", inputs.c_str(), static_cast<long long>(result.rows));
  if (options.parties != v1::TableSchema::NONLABEL_PARTY) {
    std::printf(", %.2f%% positive", 100.0 * static_cast<double>(result.positives) / static_cast<double>(result.rows));
  }
  std::printf("\n");
  PrintLeftOut(result.skipped, options.rows.input_paths.size());
  for (const PreparedParty& party : result.parties) {
    std::printf("%s: %lld rows, %lld of them for training\n", party.path.c_str(),
                static_cast<long long>(party.preprocessing.rows()),
                static_cast<long long>(party.preprocessing.training_rows()));
    PrintColumns(party.preprocessing);
  }
  if (result.parties.size() > 1) {
    std::printf("held by both: %lld rows\n", static_cast<long long>(result.common_rows));
  }
}

absl::Status Prepare(const Flags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const PrepareOptions options, OptionsOf(flags));
  SPLITVEIL_ASSIGN_OR_RETURN(const PrepareResult result, splitveil::Prepare(options));
  PrintResult(options, result);
  return absl::OkStatus();
}

}  // namespace

Command PrepareCommand() {
  return {"prepare",
          "Make a party's data ready for training, or split a table between the parties first.",
          {{"format", "", "criteo, avazu, or table (any other, described by --schema).", /*required=*/true},
           {"schema", "", "What the table's columns mean: proto/splitveil/v1/table_schema.proto."},
           {"input", "", "File of the table, plain or .gz; may be given several times.", /*required=*/true,
            /*is_switch=*/false, /*is_list=*/true},
           {"images", "", "Of a schema with images: the folder of their files, or the array that holds all."},
           {"image_size", "0", "Resize images to so many pixels in height and width. 0: as they are."},
           {"out", "", "Folder for label_party.data and nonlabel_party.data.", /*required=*/true},
           {"party", "both", "label_party or nonlabel_party: the table is that party's own. both: split it."},
           {"test_fraction", "0.1", "As in the run agreement: vocabularies and scales are fitted on the rest."},
           {"split_salt", "", "As in the run agreement."},
           {"hash_buckets", "0", "Hash categories into so many buckets a column. 0: vocabularies."},
           {"extend", "", "Folder of earlier data whose vocabularies and scales are kept and extended."},
           {"skip_bad_rows", "false", "Leave out rows that cannot be used, with a count.", /*required=*/false,
            /*is_switch=*/true},
           {"seed", "1", "Of a split: same seed, same made ids, membership and order."},
           {"only_label_fraction", "0.01", "Of a split: share of the rows that the label party alone gets."},
           {"only_nonlabel_fraction", "0.01", "Of a split: share of the rows that the non-label party alone gets."}},
          Prepare};
}

}  // namespace splitveil
