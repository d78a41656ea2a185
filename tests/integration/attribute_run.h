// A run of both programs whose table has two sensitive attributes, which the label party attacks.
#ifndef SPLITVEIL_TESTS_INTEGRATION_ATTRIBUTE_RUN_H_
#define SPLITVEIL_TESTS_INTEGRATION_ATTRIBUTE_RUN_H_

#include <fstream>
#include <initializer_list>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/testing/two_party_run.h"

namespace splitveil::testing {

inline constexpr char kAttributeSchema[] = R"(
  columns { name: "id" kind: ID } columns { name: "bought" kind: LABEL }
  columns { name: "visits" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "height" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "city" kind: CATEGORICAL holder: LABEL_PARTY }
  columns { name: "sex" kind: ATTRIBUTE values: ["Female", "Male"] }
  columns { name: "region" kind: ATTRIBUTE values: ["East", "North", "West"] }
)";

// Of what the label party knows from elsewhere: attributes, and the features that SIMULATOR takes.
inline constexpr char kKnownSchema[] = R"(
  columns { name: "id" kind: ID } columns { name: "bought" kind: IGNORE }
  columns { name: "visits" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "height" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "city" kind: IGNORE }
  columns { name: "sex" kind: ATTRIBUTE values: ["Female", "Male"] }
  columns { name: "region" kind: ATTRIBUTE values: ["East", "North", "West"] }
)";

// `height` tells the sex of nine in ten; a third are male. `visits` tells whether they bought, and in the east, where
// they come less often, a little of the region.
inline std::string AttributeTable(int rows) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::string text = "id,bought,visits,height,city,sex,region\n";
  for (int i = 0; i < rows; ++i) {
    const bool male = random() % 3 == 0, bought = random() % 2 == 0;
    const auto region = random() % 3;
    absl::StrAppend(&text, "person", i, ",", bought ? 1 : 0, ",",
                    10 + 4 * (bought ? 1 : 0) - 2 * (region == 0 ? 1 : 0) + 2 * normal(random), ",",
                    165 + (male ? 16 : 0) + 6 * normal(random), ",", random() % 2 == 0 ? "A" : "B", ",",
                    male ? "Male" : "Female", ",",
                    region == 0   ? "East"
                    : region == 1 ? "North"
                                  : "West",
                    "\n");
  }
  return text;
}

// Prepares such a table of `rows` rows in the place of the run's own, a fifth of them auxiliary, and agrees on
// `attacks` at `attributes`.
inline void AttackAttributes(int rows, std::initializer_list<const char*> attributes,
                             std::initializer_list<v1::AttributeAttack> attacks, TwoPartyRun& run) {
  const auto write = [&run](const std::string& name, const std::string& text) {
    std::ofstream(run.folder + "/" + name) << text;
    return run.folder + "/" + name;
  };
  const std::string table = write("table.csv", AttributeTable(rows));
  TwoPartyRun::Tool({"prepare", "--format=table", "--input=" + table, "--schema=" + write("schema", kAttributeSchema),
                     "--auxiliary_fraction=0.2", "--out=" + run.folder});
  TwoPartyRun::Tool({"prepare", "--format=table", "--party=nonlabel_party", "--input=" + table,
                     "--schema=" + write("known_schema", kKnownSchema), "--out=" + run.folder + "/known"});
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    v1::AttributeAuditAgreement& audit = *agreement->mutable_attribute_audit();
    for (const char* const attribute : attributes) {
      audit.add_attributes(attribute);
    }
    for (const v1::AttributeAttack attack : attacks) {
      audit.add_attacks(attack);
    }
    audit.set_embed_auxiliary(true);
    audit.set_auxiliary_fraction(0.2);
    audit.set_marked_fraction(0.3);  // Of 3000 rows some six hundred: what POISON learns from is no matter of luck.
  }
  run.label_config.mutable_attribute_attack()->mutable_auxiliary()->set_path("known/nonlabel_party.data");
  run.nonlabel_config.mutable_model()->clear_embedding();
}

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_INTEGRATION_ATTRIBUTE_RUN_H_
