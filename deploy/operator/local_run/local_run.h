// A run of both parties on this machine, as a sweep or a stream plans it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_RUN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/dataset/dataset.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct LocalRun {
  std::string name;  // Of its folder.
  // As the parties get them, but that the label party's port is not known yet. Data and certificates by absolute paths,
  // everything that is written by paths relative to the run's folder, but for a privacy account that outlives the run.
  v1::RunAgreement agreement;
  v1::LabelPartyConfig label_config;
  v1::NonLabelPartyConfig nonlabel_config;
  // Of all of the above and of both parties' data: a result is of this run if it carries the same. Hexadecimal.
  std::string configuration_sha256;
};

// What runs start from: three files as users write them, validated. Name and digest are left empty. Errors: NotFound
// and InvalidArgument, one line with file and field.
absl::StatusOr<LocalRun> LoadLocalRun(const std::string& agreement_path, const std::string& label_config_path,
                                      const std::string& nonlabel_config_path);

// Seeds both parties' weights and contributions, each its own way. `seed`: below 2^63.
void SetSeeds(uint64_t seed, v1::LabelPartyConfig& label_config, v1::NonLabelPartyConfig& nonlabel_config);

// Gives the run this protection. gaussian_label_dp keeps the privacy account that the run started from; where there is
// none, it gets one in the run's own folder, so that every run draws noise of its own. Other protections take none.
void SetProtection(const v1::GradientProtection& protection, LocalRun& run);

// Gives a run whose activations have `gaussian` noise a privacy account of them in its own folder, others none: a local
// run sends nothing to another company, so nothing of it counts for good.
void PlaceActivationAccount(LocalRun& run);

// Keeps the alignment in the folder above the run's, for all runs that are there: the first one aligns.
void ShareAlignment(LocalRun& run);

// Whether the run counts in a privacy account outside of its own folder, which outlives it.
bool HasKeptAccount(const LocalRun& run);

// Rows of the label party's data in `part` that both parties have: what runs train on, or are judged by. Errors: as
// OpenPreparedData.
absl::StatusOr<std::vector<uint32_t>> SharedRows(const LocalRun& run, const Dataset& label_data, SplitPart part);

// Digest of both parties' data, and of what the label party knows of attributes. Errors: NotFound and InvalidArgument
// if a file cannot be read.
absl::StatusOr<std::string> DataSha256(const LocalRun& run);

// `data`: what stands for the data, and for whatever else the result depends on.
std::string ConfigurationSha256(const LocalRun& run, absl::string_view data);

// `name` as part of a file name.
std::string FileName(const std::string& name);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_RUN_H_
