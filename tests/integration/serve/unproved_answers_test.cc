// Outside callers of a model that has learned from true labels: which examples are answered, how exactly, how many.
#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <openssl/sha.h>
#include <set>

#include "common/dataset/dataset.h"
#include "common/ledger/ledger_reader.h"
#include "common/storage/sqlite_database.h"
#include "tests/integration/serve/serve_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

std::string Sha256Of(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return {reinterpret_cast<const char*>(digest), sizeof(digest)};
}

// As the agreement describes the split, under an empty salt: below 0.1 it is a test example (test_fraction), below 0.2
// one of validation.
double PlaceOf(const std::string& id) {
  const std::string hash = Sha256Of("splitveil.v1 train test split\n" + Sha256Of("") + id);
  uint32_t first = 0;
  for (int i = 0; i < 4; ++i) {
    first = first << 8 | static_cast<unsigned char>(hash[static_cast<size_t>(i)]);
  }
  return first / 4294967296.0;
}

bool IsTest(const std::string& id) { return PlaceOf(id) < 0.1; }

class UnprovedAnswersTest : public ServeTest {
 protected:
  static constexpr char kShop[] = "fedcba9876543210";

  UnprovedAnswersTest() { WriteToken("shop", kShop); }

  void StartServingOutside(int64_t daily, const std::string& name = "shop") {
    server.reset();
    StartServing(absl::StrCat("unproved_answers { daily: ", daily, " decimals: 2 } callers { name: '", name,
                              "' token_path: 'shop' outside: true }"));
  }

  // Those of `ids` that are answered, by two decimal places. An id that is not has the same answer as an unknown one.
  std::map<std::string, float> Answered(const std::vector<std::string>& ids) {
    inference::ModelInferResponse response;
    const grpc::Status status = Infer(Request(ids), &response, kShop);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::map<std::string, float> answered;
    for (int i = 0; status.ok() && i < static_cast<int>(ids.size()); ++i) {
      const float value = response.outputs(0).contents().fp32_contents(i);
      if (response.outputs(1).contents().bool_contents(i)) {
        EXPECT_NEAR(value * 100, std::round(value * 100), 1e-4);
        answered[ids[static_cast<size_t>(i)]] = value;
      } else {
        EXPECT_TRUE(std::isnan(value));
      }
    }
    return answered;
  }

  grpc::StatusCode Code(const std::vector<std::string>& ids) {
    inference::ModelInferResponse response;
    return Infer(Request(ids), &response, kShop).error_code();
  }
};

// Of the labels of the rows that were trained on, by all pairs.
TEST_F(UnprovedAnswersTest, TheLedgerSaysWhatAnswersTellOfTrainingLabels) {
  TrainAndPublish();
  const std::shared_ptr<const Dataset> data = *Dataset::Open(run.folder + "/label_party.data");
  std::vector<double> positive, negative;
  for (size_t row = 0; row < data->ids().size(); ++row) {
    const std::string id(data->ids()[row]);
    if (predicted.count(id) > 0 && PlaceOf(id) >= 0.2) {
      (data->labels()[row] == 1 ? positive : negative).push_back(predicted.at(id));
    }
  }
  double ordered = 0;
  for (const double of_positive : positive) {
    for (const double of_negative : negative) {
      ordered += of_positive > of_negative ? 1 : of_positive == of_negative ? 0.5 : 0;
    }
  }
  const std::unique_ptr<LedgerReader> ledger = *LedgerReader::Open(run.ledger("label_party"));
  const RunRecord prediction = ledger->Runs()->back();
  std::vector<EvaluationRow> trained = *ledger->Evaluations(prediction.run.run_id);
  trained.erase(std::remove_if(trained.begin(), trained.end(), [](const auto& row) { return row.split != "train"; }),
                trained.end());
  ASSERT_EQ(trained.size(), 1);
  EXPECT_NEAR(trained[0].auc, ordered / static_cast<double>(positive.size() * negative.size()), 1e-3);
  EXPECT_EQ(prediction.run.resumed_from, ledger->Runs()->front().run.run_id);
  const std::vector<EventRow> events = *ledger->Events(prediction.run.run_id);
  EXPECT_TRUE(std::any_of(events.begin(), events.end(),
                          [](const EventRow& row) { return row.kind == kStoredVersion && row.detail == "1"; }));
}

TEST_F(UnprovedAnswersTest, NoExampleThatWasTrainedOnIsAnsweredAndADayIsLimited) {
  TrainAndPublish();
  std::vector<std::string> ids = Ids();
  ids.emplace_back("nobody");
  const auto all = static_cast<int64_t>(ids.size());
  StartServingOutside(2 * all + 1);
  const std::map<std::string, float> answered = Answered(ids);
  size_t held_out = 0;
  for (const auto& [id, value] : predicted) {
    held_out += IsTest(id) ? 1 : 0;
    ASSERT_EQ(answered.count(id), IsTest(id) ? 1 : 0);
    if (IsTest(id)) {
      EXPECT_NEAR(answered.at(id), value, 0.00501);
    }
  }
  EXPECT_EQ(answered.size(), held_out);
  EXPECT_GT(held_out, 50);
  EXPECT_THAT(server->Errors(), HasSubstr(absl::StrCat("outside callers get answers for ", held_out, " of ")));
  // Own callers are not limited, and get all.
  inference::ModelInferResponse own;
  ASSERT_TRUE(Infer(Request(ids), &own).ok());
  EXPECT_NEAR(own.outputs(0).contents().fp32_contents(0), predicted.at(ids[0]), 1e-6);

  // A caller that tries values finds the stored ones.
  inference::ModelInferRequest with_column = Request({ids[0]});
  *with_column.add_inputs() = with_column.inputs(0);
  with_column.mutable_inputs(1)->set_name("C1");
  EXPECT_EQ(Infer(with_column, &own, kShop).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Infer(with_column, &own).ok());

  // What was not found counts, and a restart forgets nothing.
  StartServingOutside(2 * all + 1);
  Answered(ids);
  EXPECT_EQ(Code({ids[0], ids[1]}), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Code({ids[0]}), grpc::StatusCode::OK);
  EXPECT_EQ(Code({ids[0]}), grpc::StatusCode::RESOURCE_EXHAUSTED);
  StartServingOutside(2 * all + 1);
  EXPECT_EQ(Code({ids[0]}), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const std::unique_ptr<LedgerReader> ledger = *LedgerReader::Open(run.ledger("label_party"));
  const std::vector<RunRecord> runs = *ledger->Runs();
  EXPECT_EQ(CountUnprovedAnswers(*ledger->Events(runs.front().run.run_id)), 2 * all + 1);
  std::ofstream(run.files.File("policy.textproto")) << "allowed_protections: 'none' require_no_bound_exceeded: false";
  const ChildResult audit =
      RunChild({BinDir() + "/splitveil", "audit", "--policy=" + run.files.File("policy.textproto"),
                "--ledger=" + run.ledger("label_party")});
  EXPECT_EQ(audit.exit_code, 10) << audit.err;
  EXPECT_THAT(audit.out, HasSubstr(absl::StrCat("answers left that no bound covers: at most ", 2 * all + 1)));

  // Of what an earlier run was trained on nothing is known.
  ASSERT_TRUE((*SqliteDatabase::Open(run.ledger("label_party"), SqliteDatabase::Mode::kCreate))
                  ->Execute("UPDATE run SET resumed_from = 'earlier'")
                  .ok());
  StartServingOutside(2 * all, "another");
  EXPECT_EQ(Code({ids[0]}), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Infer(Request(ids), &own).ok());
  EXPECT_THAT(server->Errors(), HasSubstr("outside callers get no answers: run "));
  // What cannot be counted is not answered.
  ASSERT_TRUE((*SqliteDatabase::Open(run.ledger("label_party"), SqliteDatabase::Mode::kCreate))
                  ->Execute("UPDATE run SET resumed_from = ''")
                  .ok());
  StartServingOutside(2 * all, "third");
  std::filesystem::rename(run.ledger("label_party"), run.folder + "/away.db");
  EXPECT_EQ(Code({ids[0]}), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Infer(Request(ids), &own).ok());
}

TEST_F(UnprovedAnswersTest, OfOtherDataOnlyTheIdsThatWereTrainedOnAreLeftOut) {
  Train();
  ASSERT_EQ(TwoPartyRun::Tool({"generate", "--rows=2500", "--seed=9", "--out=" + run.files.File("other.tsv")}), 0);
  ASSERT_EQ(TwoPartyRun::Tool({"prepare", "--format=criteo", "--input=" + run.files.File("other.tsv"),
                               "--extend=" + run.folder, "--test_fraction=0", "--out=" + run.files.File("other")}),
            0);
  StartPublication({"--data=" + run.files.File("other/label_party.data")},
                   {"--data=" + run.files.File("other/nonlabel_party.data")});
  ASSERT_EQ(nonlabel->Wait(), 0) << nonlabel->Errors();
  ASSERT_EQ(label->Wait(), 0) << label->Errors();
  const auto ids_of = [](const std::string& path) {
    const std::shared_ptr<const Dataset> data = *Dataset::Open(path);
    std::vector<std::string> ids;
    for (size_t row = 0; row < data->ids().size(); ++row) {
      ids.emplace_back(data->ids()[row]);
    }
    return ids;
  };
  const std::vector<std::string> trained = ids_of(run.folder + "/label_party.data");
  const std::set<std::string> known(trained.begin(), trained.end());
  const std::vector<std::string> ids = ids_of(run.files.File("other/label_party.data"));
  StartServingOutside(100'000);
  inference::ModelInferResponse own;
  ASSERT_TRUE(Infer(Request(ids), &own).ok());
  const std::map<std::string, float> answered = Answered(ids);
  int fresh = 0, withheld = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool shared = own.outputs(1).contents().bool_contents(static_cast<int>(i));
    const bool is_new = known.count(ids[i]) == 0;
    ASSERT_EQ(answered.count(ids[i]), shared && (is_new || IsTest(ids[i])) ? 1 : 0);
    fresh += shared && is_new ? 1 : 0;
    withheld += shared && !is_new && !IsTest(ids[i]) ? 1 : 0;
  }
  EXPECT_GT(fresh, 100);
  EXPECT_GT(withheld, 100);
  // Without the training's data nobody knows which these are.
  run.label_config.mutable_party()->mutable_dataset()->set_path("other/label_party.data");
  run.WriteLabelPartyFiles();
  StartServingOutside(100'000);
  EXPECT_EQ(Code({ids[0]}), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(server->Errors(), HasSubstr("expected the data that the model was trained on"));
}

}  // namespace
}  // namespace splitveil::testing
