// What `nonlabel_party serve` says of how its own columns, in the rows that it is asked for, differ from its training.
#include <cmath>
#include <csignal>
#include <gmock/gmock.h>
#include <optional>

#include "absl/strings/str_join.h"

#include "common/checkpoint/stored_version.h"
#include "tests/integration/serve/live_fixture.h"
#include "tests/integration/serve/noon_clock.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LiveDriftTest : public LiveTest {
 protected:
  LiveDriftTest() : LiveTest(/*rows=*/3000) {}

  std::optional<double> Column(const std::string& name, const std::string& model) const {
    const std::string series =
        absl::StrCat("splitveil_column_drift_psi{column=\"", name, "\",day=\"today\",model=\"", model, "\"}");
    const std::string metrics = PeerMetrics();
    return absl::StrContains(metrics, series) ? std::optional<double>(ValueIn(metrics, series)) : std::nullopt;
  }

  // The other party's table of a day on which one number is the same, far out, in all rows.
  void ReplaceByConstant(const std::string& column) {
    int place = 0;
    ASSERT_TRUE(absl::SimpleAtoi(column.substr(1), &place)) << column;  // "I7": the seventh behind the label.
    std::ofstream file(run.folder + "/day.tsv");
    for (const absl::string_view line :
         absl::StrSplit(ReadWholeFile(run.folder + "/data.tsv"), '\n', absl::SkipEmpty())) {
      std::vector<std::string> cells = absl::StrSplit(line, '\t');
      cells[static_cast<size_t>(place)] = "99999999";
      file << absl::StrJoin(cells, "\t") << "\n";
    }
    file.close();
    ASSERT_EQ(TwoPartyRun::Tool({"prepare", "--format=criteo", absl::StrCat("--input=", run.folder, "/day.tsv"),
                                 absl::StrCat("--extend=", run.folder), absl::StrCat("--out=", run.folder, "/day"),
                                 "--allow_changed=" + column}),
              0);
    ReplaceLiveData(run.folder + "/day/nonlabel_party.data");
  }

  // Where all of `rows` are in the bucket of the largest numbers.
  static double IndexOfLargest(const v1::NumericScaling& scaling, double rows) {
    const v1::ValueCounts& counts = scaling.counts();
    // The first and the last are of clipped numbers, and counted with their neighbours.
    std::vector<double> training(counts.buckets().begin() + 1, counts.buckets().end() - 1);
    training.front() += static_cast<double>(counts.buckets(0));
    training.back() += static_cast<double>(counts.buckets(counts.buckets_size() - 1));
    const auto missing = static_cast<double>(counts.missing());
    if (missing > 0 && scaling.has_missing_value()) {
      training.push_back(missing);
    } else {
      training.front() += missing;
    }
    std::vector<double> here(training.size());
    here[static_cast<size_t>(counts.buckets_size()) - 3] = rows;
    double index = 0, all_training = 0, all_here = 0;
    for (size_t i = 0; i < training.size(); ++i) {
      all_training += training[i] + 0.5;
      all_here += here[i] + 0.5;
    }
    for (size_t i = 0; i < training.size(); ++i) {
      const double p = (training[i] + 0.5) / all_training, q = (here[i] + 0.5) / all_here;
      index += (q - p) * std::log(q / p);
    }
    return index;
  }
};

// As at the label party: by chance an index is above 0.15 less than once in a million, and the data are the same each
// time.
TEST_F(LiveDriftTest, ThePeerWatchesTheDriftOfItsOwnColumnsInWhatItIsAskedFor) {
  TrainAndPublish();
  const auto data = *Dataset::Open(run.files.File("nonlabel_party.data"));
  const std::string model = OpenVersion(peer_versions_, 1, "nonlabel_party")->header.checkpoint();
  const std::vector<std::string> ids = TrainedOn(*data);
  ASSERT_GT(ids.size(), 1000);
  const NoonClock noon(run.files.File("clock"));
  StartPeer("monitoring { listen_address: '127.0.0.1:0' }");
  StartLive("REFUSE");
  const std::string rows = absl::StrCat("splitveil_drift_rows{day=\"today\",model=\"", model, "\"}");
  Ask({ids.begin(), ids.begin() + 499});
  EXPECT_EQ(ValueIn(PeerMetrics(), rows), 499);
  EXPECT_THAT(PeerMetrics(), Not(HasSubstr("_psi{")));  // Of so few rows nothing is said.
  Ask({ids.begin() + 499, ids.end()});
  EXPECT_EQ(ValueIn(PeerMetrics(), rows), static_cast<double>(ids.size()));
  int columns = 0;
  for (const auto& column : data->preprocessing().numeric()) {
    const std::optional<double> index = Column(column.name(), model);
    EXPECT_FALSE(index.has_value() && *index > 0.15) << column.name() << " " << *index;
    columns += index.has_value() ? 1 : 0;
  }
  for (const auto& column : data->preprocessing().categorical()) {
    ASSERT_TRUE(Column(column.name(), model).has_value()) << column.name();
    EXPECT_LT(*Column(column.name(), model), 0.15) << column.name();
  }
  EXPECT_GT(columns, 5);
  EXPECT_THAT(PeerMetrics(), Not(HasSubstr("score_drift")));
  EXPECT_THAT(PeerMetrics() + peer_->Errors(), Not(HasSubstr(ids[0])));

  // Another day, with data of the moment that extend those of the training.
  peer_->Signal(SIGTERM);
  EXPECT_EQ(peer_->Wait(), 0);
  const v1::NumericScaling& scaling = data->preprocessing().numeric(0);
  ASSERT_NO_FATAL_FAILURE(ReplaceByConstant(scaling.name()));
  StartPeer("monitoring { listen_address: '127.0.0.1:0' }");
  EXPECT_TRUE(Becomes([&] { return CodeOf(ids[0]) == grpc::StatusCode::OK; }));
  Ask(ids);
  EXPECT_NEAR(Column(scaling.name(), model).value(), IndexOfLargest(scaling, ValueIn(PeerMetrics(), rows)), 1e-4);
  for (const auto& column : data->preprocessing().categorical()) {
    EXPECT_LT(Column(column.name(), model).value(), 0.15) << column.name();
  }
}

}  // namespace
}  // namespace splitveil::testing
