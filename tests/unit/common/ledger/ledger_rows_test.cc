#include "common/ledger/ledger_rows.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(GateActionTest, HasTheNamesThatLedgersHold) {
  EXPECT_EQ(GateActionName(v1::RELEASE), "release");
  EXPECT_EQ(GateActionName(v1::WARN), "warn");
  EXPECT_EQ(GateActionName(v1::RAISE_NOISE), "raise_noise");
  EXPECT_EQ(GateActionName(v1::FREEZE_BOTTOM), "freeze_bottom");
  EXPECT_EQ(GateActionName(v1::HALT), "halt");
}

TEST(GateActionTest, ReadsItsNamesBack) {
  for (v1::GateAction action : {v1::RELEASE, v1::WARN, v1::RAISE_NOISE, v1::FREEZE_BOTTOM, v1::HALT}) {
    EXPECT_EQ(GateActionOf(GateActionName(action)), action);
  }
}

TEST(GateActionTest, KnowsNoOthers) {
  EXPECT_EQ(GateActionName(v1::GATE_ACTION_UNSPECIFIED), "unknown");
  EXPECT_EQ(GateActionName(static_cast<v1::GateAction>(17)), "unknown");
  for (const char* name : {"", "shrug", "unknown", "gate_action_unspecified"}) {
    EXPECT_EQ(GateActionOf(name), v1::GATE_ACTION_UNSPECIFIED) << name;
  }
}

}  // namespace
}  // namespace splitveil
