// Files for a small real run of both programs: data, certificates, agreement, configurations.
#ifndef SPLITVEIL_TESTS_TESTING_TWO_PARTY_RUN_H_
#define SPLITVEIL_TESTS_TESTING_TWO_PARTY_RUN_H_

#include <memory>
#include <string>

#include "tests/testing/process/running_program.h"
#include "tests/testing/process/temp_folder.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil::testing {

// Edit the messages, then Start. Ports are free ones: the non-label party learns the label party's from its log.
class TwoPartyRun {
 public:
  // Generates `rows` examples in Criteo's format and splits them; makes certificates. Small model, 2 epochs, no noise.
  explicit TwoPartyRun(int rows = 4000);

  // Writes the label party's files as they stand now.
  void WriteLabelPartyFiles();
  // Writes the files as they stand now and starts the label party; waits until it listens.
  void StartLabelParty();
  // Waits until a label party's program listens, and takes its port.
  void AwaitPort(RunningProgram& program);
  // Writes the non-label party's files as they stand now, against label_port.
  void WriteNonLabelPartyFiles();
  // Starts the non-label party against the label party's port.
  void StartNonLabelParty();

  const TempFolder files;
  const std::string folder = files.path();
  v1::RunAgreement label_agreement, nonlabel_agreement;  // Alike, unless a test makes them differ.
  v1::LabelPartyConfig label_config;
  v1::NonLabelPartyConfig nonlabel_config;
  std::unique_ptr<RunningProgram> label, nonlabel;
  std::string label_host = "127.0.0.1";  // As the non-label party reaches it.
  int label_port = 0;
  int label_open_files = 0;  // The most that the label party may open; 0: as this process.

  // Runs `splitveil` with these arguments to its end; its exit code.
  static int Tool(std::vector<std::string> arguments);

  std::string ledger(const std::string& party) const { return folder + "/" + party + ".db"; }
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_TWO_PARTY_RUN_H_
