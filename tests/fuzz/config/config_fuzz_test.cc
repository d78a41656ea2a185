// Deterministic mutations of valid configurations and agreements through the fuzz target, for every compiler and build.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "splitveil/v1/agreement.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace splitveil {
namespace {

constexpr std::chrono::seconds kBudget(3);
constexpr int kMinInputs = 2000;  // Also under sanitizers.
constexpr uint32_t kSeed = 20220601;

std::vector<std::string> Seeds() {
  v1::RunAgreement agreement;
  agreement.set_run_name("demo");
  agreement.set_cut_width(128);
  agreement.set_batch_size(512);
  agreement.mutable_audit()->add_layers("cut");
  agreement.mutable_audit()->add_attacks(v1::NORM);
  agreement.mutable_deadlines()->set_step_seconds(3);
  const std::string text =
      "run_name: \"demo\" # name\ncut_width: 128 test_fraction: 0.25 wire_dtype: BFLOAT16\n"
      "alignment { protocol: RISTRETTO255_DH max_ids: 0x1000 } audit < layers: [\"first\", 'cut'] attacks: [NORM] >";
  const std::string party =
      "party { identity { own_name: 'a' peer_name: 'b' certificate_path: 'c' private_key_path: 'd' authority_path: 'e' "
      "} dataset { path: 'f' } optimizer { adam { beta1: 0.5 } } ledger_path: 'g' }\nmodel { layers { name: 'h' units: "
      "4 activation: TANH } } protection { marvell { sum_kl: 1e-1 } }";
  return {std::string(1, '\0') + text, "\1" + party, "\2" + agreement.SerializeAsString()};
}

std::string Mutated(std::string input, const std::vector<std::string>& seeds, std::mt19937& random) {
  static const std::vector<std::string> kTokens = {"{",           "}",
                                                   "<",           ">",
                                                   "[",           "]",
                                                   ":",           "-",
                                                   "'",           "\"",
                                                   "\n",          "#",
                                                   "\x80",        " nan ",
                                                   " inf ",       "-1",
                                                   "1e400",       "99999999999999999999",
                                                   "[a.b]: 1",    "\xff\xff\xff\xff\x0f",
                                                   "unknown: 1 ", "wire_dtype: 0 ",
                                                   "run_name"};
  const auto below = [&](size_t bound) { return random() % bound; };
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    const size_t at = 1 + below(input.size());
    switch (below(5)) {
      case 0:
        input[at == input.size() ? at - 1 : at] ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        input.erase(at, below(12));
        break;
      case 2:
        input.insert(at, kTokens[below(kTokens.size())]);
        break;
      case 3:
        input.insert(at, input.substr(1 + below(input.size()), below(40)));
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        input.insert(at, other.substr(1 + below(other.size()), below(40)));
      }
    }
  }
  return input;
}

TEST(ConfigFuzzTest, MutatedConfigurationsAndAgreementsKeepTheProperties) {
  const std::vector<std::string> seeds = Seeds();
  std::mt19937 random(kSeed);
  const auto end = std::chrono::steady_clock::now() + kBudget;
  int inputs = 0;
  while (inputs < kMinInputs || std::chrono::steady_clock::now() < end) {
    const std::string input = Mutated(seeds[inputs % seeds.size()], seeds, random);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    ++inputs;
  }
  RecordProperty("inputs", inputs);
  std::cout << inputs << " inputs\n";
}

TEST(ConfigFuzzTest, ValidSeedsAndDegenerateInputsKeepTheProperties) {
  std::vector<std::string> inputs = Seeds();
  for (const char mode : {'\0', '\1', '\2'}) {
    inputs.push_back(std::string(1, mode));
    inputs.push_back(std::string(1, mode) + std::string(10000, '{'));
    inputs.push_back(std::string(1, mode) + std::string(10000, '\xff'));
    std::string nested(1, mode);
    for (int i = 0; i < 10000; ++i) {
      nested += "audit {";
    }
    inputs.push_back(nested);
  }
  for (const std::string& input : inputs) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace splitveil
