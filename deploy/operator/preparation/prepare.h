// From a user's table to the parties' prepared data.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPARE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPARE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/preparation/row_source.h"

#include "splitveil/v1/preprocessing.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

struct PrepareOptions {
  RowSource::Options rows;
  // Whether too few of the rows were read: UsableRowsOptions.
  double min_usable_share = 0.95;
  int64_t expected_rows = 0;
  // Made if it does not exist.
  std::string out_dir;
  // Other data of the same names in out_dir are left as they are, and the call fails; else they are replaced, but never
  // those of `extend_dir`: their scales and vocabularies, which a model may have been trained with, are in no other
  // file. The same data, byte for byte, are written again in any case.
  bool keeps_other_data = false;
  // BOTH: the table is split vertically between the parties, as the schema's holders say; every feature needs one. Else
  // it is that party's own, which takes part with every row and every feature but those that the schema gives to the
  // other party; it needs ids, and labels at the label party only. Attributes of a table that is split are the
  // non-label party's. What a label party knows of attributes (LabelPartyConfig.attribute_attack) is prepared like a
  // non-label party's own table.
  v1::TableSchema::Holder parties = v1::TableSchema::BOTH;
  // Expected shares of the rows that one party alone gets; each in [0, 1), together below 1.
  double only_label_fraction = 0.01;
  double only_nonlabel_fraction = 0.01;
  // Rows that a party's shuffle holds when a table is split, at least 1. A row moves on to a random place up to a few
  // times this far behind where it stood; larger mixes better and costs a party the size of so many rows.
  int64_t shuffle_buffer_rows = 65536;
  // The split that runs on these data will use (RunAgreement, and its attribute_audit's auxiliary_fraction):
  // preprocessing is fitted on its training part. By group if the schema has a GROUP, by time if it has a TIME:
  // then test_after is its time.
  double test_fraction = 0.1;
  double auxiliary_fraction = 0;
  double validation_fraction = 0.1;
  std::string test_after;
  std::string split_salt;
  // Preprocessor::Options.
  int64_t hash_buckets = 0;
  // Overrides those of the schema; SCALING_UNSPECIFIED: these.
  v1::TableSchema::Scaling scaling = v1::TableSchema::SCALING_UNSPECIFIED;
  // Folder of earlier data that these extend, party by party (Preprocessor::Options). Empty: none.
  std::string extend_dir;
  // Fails where rows.profile, which is then needed, has a warning (ProfileWarnings).
  bool strict = false;
  // With extend_dir: its preprocessing is applied and nothing is fitted, for a table whose examples are to be
  // predicted, of one party alone; it needs no labels, and every row counts as one for training.
  bool only_applies = false;
};

struct PreparedParty {
  std::string path;
  v1::Preprocessing preprocessing;
  // Rows of the other parts; those of the auxiliary one are not counted.
  int64_t test_rows = 0, validation_rows = 0;
  bool replaced_others = false;  // Whether `path` had other prepared data before.
};

struct PrepareResult {
  IdSurvey ids;                        // Of the usable rows; of none if the table has no ids.
  std::vector<PreparedParty> parties;  // The label party first.
  int64_t rows = 0;                    // Usable ones of the table, each held by one party or both.
  int64_t positives = 0;               // Of two classes.
  std::vector<int64_t> class_rows;     // Of several: rows of each, by label.
  // Of a regression, once they are clipped, in the unit of the table; NaN otherwise.
  double target_mean = std::numeric_limits<double>::quiet_NaN();
  int64_t clipped_targets = 0;
  int64_t common_rows = 0;
  FaultCounts skipped = {};
  size_t files = 0;  // That the inputs stand for.
};

// Writes OUT_DIR/label_party.data and OUT_DIR/nonlabel_party.data (dataset.h), or the one of `parties`. A split gives
// the parties rows that partly overlap, in different orders. Reads the table twice: to fit, then to encode. The same
// input and options give the same bytes on every machine. Memory: vocabularies (vocabulary.h) and RowSource's.
//
// All files appear complete or none does. Errors: NotFound; InvalidArgument for options, a table without usable rows or
// with too few of them, labels that are all alike in the training, test or validation part, and with file, line and
// column, never the value, for a row that cannot be used; AlreadyExists if out_dir has other data that are to stay,
// which is known once all is encoded; Internal if files cannot be written.
absl::StatusOr<PrepareResult> Prepare(const PrepareOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPARE_H_
