// What `label_party serve` says of how the rows that are asked for differ from those of the training.
#include <cmath>
#include <gmock/gmock.h>
#include <numeric>
#include <optional>

#include "common/dataset/dataset.h"
#include "tests/integration/serve/noon_clock.h"
#include "tests/integration/serve/serve_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DriftTest : public ServeTest {
 protected:
  DriftTest() : ServeTest(3000) {}

  void StartServingAtNoon() {
    const NoonClock noon(run.files.File("clock"));
    StartServing();
  }

  // Of the first line of /metrics that begins so.
  std::optional<double> Metric(const std::string& series) const {
    const std::string text = "\n" + Rest()->Get("/metrics")->body;
    const size_t at = text.find("\n" + series);
    double value = 0;
    return at != std::string::npos &&
                   absl::SimpleAtod(text.substr(text.find(' ', at), text.find('\n', at + 1) - text.find(' ', at)),
                                    &value)
               ? std::optional<double>(value)
               : std::nullopt;
  }
  std::optional<double> Rows() const { return Metric("splitveil_drift_rows{day=\"today\""); }
  std::optional<double> Column(const std::string& name) const {
    return Metric(absl::StrCat("splitveil_column_drift_psi{column=\"", name, "\",day=\"today\""));
  }
  std::optional<double> Scores() const { return Metric("splitveil_score_drift_psi{day=\"today\""); }

  void Ask(const std::vector<std::string>& ids) const {
    inference::ModelInferResponse response;
    const grpc::Status status = Infer(Request(ids), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
};

// All shared training rows, about half of the party's: by chance an index over at most 20 buckets is above 0.15 less
// than once in a million (ChanceIndex), and the data are the same each time.
TEST_F(DriftTest, TrainingRowsHaveNoneAndANewVersionGoesOnCounting) {
  TrainAndPublish();
  StartServingAtNoon();
  EXPECT_EQ(Rest()->Get("/drift")->body, "nothing has been asked for yet\n");
  const auto data = *Dataset::Open(run.files.File("label_party.data"));
  const std::vector<std::string> ids = TrainedOn(*data);
  ASSERT_GT(ids.size(), 1000);
  const std::vector<std::string> few(ids.begin(), ids.begin() + 400), more(ids.begin() + 400, ids.end());
  Ask(few);
  EXPECT_EQ(Rows(), 400);
  EXPECT_EQ(Scores(), std::nullopt);  // Of so few rows nothing is said.
  Ask(more);
  Ask({"nobody", "no one"});
  EXPECT_EQ(Rows(), static_cast<double>(ids.size()));
  // The very rows whose scores were counted when the version was published.
  EXPECT_LT(Scores().value(), 1e-4);
  int columns = 0;
  for (const auto& column : data->preprocessing().numeric()) {
    const std::optional<double> index = Column(column.name());
    EXPECT_FALSE(index.has_value() && *index > 0.15) << column.name() << " " << *index;
    columns += index.has_value() ? 1 : 0;
  }
  for (const auto& column : data->preprocessing().categorical()) {
    ASSERT_TRUE(Column(column.name()).has_value()) << column.name();
    EXPECT_LT(*Column(column.name()), 0.15) << column.name();
  }
  EXPECT_GT(columns, 5);
  const std::string table = Rest()->Get("/drift")->body;
  EXPECT_THAT(table, HasSubstr(absl::StrCat(" today (UTC): ", ids.size(), " rows against the training")));
  EXPECT_THAT(table, Not(HasSubstr("shifted")));
  EXPECT_THAT(table + Rest()->Get("/metrics")->body + server->Errors(), Not(HasSubstr(ids[0])));

  Publish();
  ASSERT_TRUE(server->WaitForError("version 2: answers for "));
  Ask({ids[0]});
  EXPECT_EQ(Rows(), static_cast<double>(ids.size() + 1));
}

// Numbers that the test gives are counted as the party's raw ones were, against an index that the test computes of
// these.
TEST_F(DriftTest, AShiftedColumnIsFoundAndItsIndexIsThatOfItsRawNumbers) {
  TrainAndPublish();
  StartServingAtNoon();
  const auto data = *Dataset::Open(run.files.File("label_party.data"));
  const std::vector<std::string> ids = TrainedOn(*data);
  const v1::NumericScaling& scaling = data->preprocessing().numeric(0);
  const auto& edges = scaling.bucket_edges();
  ASSERT_GT(edges.size(), 4);
  // Rows by number: below and at the least edge, up to each, and behind the last one, where clipped ones are, too.
  std::vector<double> training(static_cast<size_t>(edges.size()) + 1), asked(training.size()), numbers;
  for (int i = 0; i < scaling.counts().buckets_size(); ++i) {
    training[static_cast<size_t>(std::min(std::max(i, 1) - 1, edges.size()))] +=
        static_cast<double>(scaling.counts().buckets(i));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    // From above the third edge on, and some far out.
    const double number = i % 5 == 0 ? 1e9 : edges[3] + static_cast<double>(i % 4);
    numbers.push_back(number);
    size_t bucket = 0;
    while (bucket < static_cast<size_t>(edges.size()) && number > edges[static_cast<int>(bucket)]) {
      ++bucket;
    }
    ++asked[bucket];
  }
  // Missing ones have a bucket of their own if the training had any; with MIN_MAX they count as 0, the least here.
  const auto missing = static_cast<double>(scaling.counts().missing());
  if (missing > 0 && scaling.has_missing_value()) {
    training.push_back(missing);
    asked.push_back(0);
  } else {
    ASSERT_EQ(scaling.minimum(), 0);
    training[0] += missing;
  }
  double index = 0, all_training = 0, all_asked = 0;
  for (size_t i = 0; i < training.size(); ++i) {
    all_training += training[i] + 0.5;
    all_asked += asked[i] + 0.5;
  }
  for (size_t i = 0; i < training.size(); ++i) {
    const double p = (training[i] + 0.5) / all_training, q = (asked[i] + 0.5) / all_asked;
    index += (q - p) * std::log(q / p);
  }

  inference::ModelInferRequest request = Request(ids);
  auto& input = *request.add_inputs();
  input.set_name(scaling.name());
  input.set_datatype("FP64");
  input.add_shape(static_cast<int64_t>(ids.size()));
  input.mutable_contents()->mutable_fp64_contents()->Add(numbers.begin(), numbers.end());
  inference::ModelInferResponse response;
  ASSERT_TRUE(Infer(request, &response).ok());
  EXPECT_NEAR(Column(scaling.name()).value(), index, 1e-5);
  EXPECT_GT(index, 0.25);
  for (const auto& column : data->preprocessing().categorical()) {
    EXPECT_LT(Column(column.name()).value(), 0.15) << column.name();
  }
  EXPECT_THAT(Rest()->Get("/drift")->body, HasSubstr(absl::StrCat("  ", scaling.name(), "  shifted\n")));
}

}  // namespace
}  // namespace splitveil::testing
