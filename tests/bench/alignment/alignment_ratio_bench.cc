// What the alignment costs beside libsodium's arithmetic, as ratios within one run: the clocks of shared machines vary.
#include <sodium.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <iostream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "common/crypto/ristretto.h"
#include "common/crypto/secure_random.h"
#include "common/process/file.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/process/emulated_network.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

// Of this thread, in ns.
double CpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
}

// The median of several turns, each over `items`, in ns an item.
double TimePerItem(size_t items, const std::function<void()>& work) {
  std::vector<double> times(15);
  for (double& time : times) {
    const double begun = CpuTime();
    work();
    time = (CpuTime() - begun) / static_cast<double>(items);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Each addition waits for the one before, and takes one cycle.
double ClockInGhz() {
  constexpr int kTurns = 100'000;
  uint64_t sum = 0;
  const uint64_t addend = 3;
  const auto chain = [&] {
    for (int i = 0; i < kTurns; ++i) {
#if defined(__x86_64__)
      asm volatile("add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0" : "+r"(sum) : "r"(addend));
#elif defined(__aarch64__)
      asm volatile("add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1" : "+r"(sum) : "r"(addend));
#endif
    }
  };
  return 1 / TimePerItem(4 * kTurns, chain);
}

// Times of one operation on one point, in ns.
struct Arithmetic {
  double hash_and_multiply = 0, multiply = 0, check = 0;

  // An id of each party: its own two exponentiations, and the checks of both when they are received.
  double OfAnId() const { return hash_and_multiply + multiply + 2 * check; }
};

Arithmetic LibsodiumOnOneCore() {
  constexpr size_t kItems = 200;
  std::vector<RistrettoUniform> uniform(kItems);
  FillSecureRandom({uniform.front().data(), kItems * sizeof(RistrettoUniform)});
  std::array<uint8_t, 32> scalar;
  crypto_core_ristretto255_scalar_random(scalar.data());
  std::vector<RistrettoPoint> points(kItems), products(kItems);
  Arithmetic time;
  const double hash = TimePerItem(kItems, [&] {
    for (size_t i = 0; i < kItems; ++i) {
      crypto_core_ristretto255_from_hash(points[i].data(), uniform[i].data());
    }
  });
  time.multiply = TimePerItem(kItems, [&] {
    for (size_t i = 0; i < kItems; ++i) {
      EXPECT_EQ(crypto_scalarmult_ristretto255(products[i].data(), scalar.data(), points[i].data()), 0);
    }
  });
  time.check = TimePerItem(kItems, [&] {
    for (const RistrettoPoint& point : points) {
      EXPECT_EQ(crypto_core_ristretto255_is_valid_point(point.data()), 1);
    }
  });
  time.hash_and_multiply = hash + time.multiply;
  return time;
}

Arithmetic ActivePathOnOneCore() {
  constexpr size_t kItems = 8 * kRistrettoBatch;
  std::vector<RistrettoUniform> uniform(kItems);
  FillSecureRandom({uniform.front().data(), kItems * sizeof(RistrettoUniform)});
  const RistrettoExponent exponent = RistrettoExponent::Generate();
  std::vector<RistrettoPoint> points(kItems), products(kItems);
  Arithmetic time;
  time.hash_and_multiply =
      TimePerItem(kItems, [&] { EXPECT_EQ(exponent.HashAndMultiply(uniform, absl::MakeSpan(points)), 0); });
  time.multiply = TimePerItem(kItems, [&] { EXPECT_EQ(exponent.Multiply(points, absl::MakeSpan(products)), 0); });
  time.check = TimePerItem(kItems, [&] { EXPECT_EQ(CountUnusable(points), 0); });
  return time;
}

// The mean over all cores at once: an alignment keeps them all busy, too, and they share clock and caches.
Arithmetic OnAllCores(const std::function<Arithmetic()>& measure) {
  std::vector<Arithmetic> times(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (Arithmetic& time : times) {
    threads.emplace_back([&] { time = measure(); });
  }
  Arithmetic mean;
  for (size_t i = 0; i < times.size(); ++i) {
    threads[i].join();
    mean.hash_and_multiply += times[i].hash_and_multiply / static_cast<double>(times.size());
    mean.multiply += times[i].multiply / static_cast<double>(times.size());
    mean.check += times[i].check / static_cast<double>(times.size());
  }
  return mean;
}

Arithmetic OfLibsodium() { return OnAllCores(LibsodiumOnOneCore); }
Arithmetic OfActivePath() { return OnAllCores(ActivePathOnOneCore); }

// Of all children that have ended, in ns.
double CpuTimeOfChildren() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto ns = [](const timeval& time) {
    return 1e9 * static_cast<double>(time.tv_sec) + 1e3 * static_cast<double>(time.tv_usec);
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

struct Alignment {
  double seconds = 0;  // From the opened stream to the end, as the non-label party reports.
  double cpu_ns = 0;
  double bytes = 0;
  double ids = 0;  // Of both.
};

// `splitveil align` of both parties, with all that they read, send and write; at the ends of `network` if there is one.
Alignment Align(TwoPartyRun& run, const EmulatedNetwork* network = nullptr) {
  const auto words = [&](const std::string& party) {
    return std::vector<std::string>{"align", "--agreement=" + run.folder + "/" + party + ".agreement",
                                    "--config=" + run.folder + "/" + party + ".textproto",
                                    "--out=" + run.folder + "/" + party + ".shared"};
  };
  const auto write = [&](const std::string& name, const google::protobuf::Message& message) {
    std::string text;
    google::protobuf::TextFormat::PrintToString(message, &text);
    EXPECT_TRUE(WriteFile(run.folder + "/" + name, text, kOwnerOnly).ok());
  };
  const double begun = CpuTimeOfChildren();
  write("label_party.agreement", run.label_agreement);
  write("nonlabel_party.agreement", run.nonlabel_agreement);
  write("label_party.textproto", run.label_config);
  if (network != nullptr) {
    network->EnterLabel();
  }
  RunningProgram label("splitveil", words("label_party"), run.folder);
  run.AwaitPort(label);
  run.nonlabel_config.set_peer_address(absl::StrCat(run.label_host, ":", run.label_port));
  write("nonlabel_party.textproto", run.nonlabel_config);
  std::vector<std::string> nonlabel = words("nonlabel_party");
  nonlabel.insert(nonlabel.begin(), BinDir() + "/splitveil");
  if (network != nullptr) {
    network->EnterNonLabel();
  }
  ChildOptions options;
  options.limit_seconds = 500;
  const ChildResult result = RunChild(nonlabel, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(label.Wait(), 0) << label.Errors();
  Alignment alignment;
  alignment.cpu_ns = CpuTimeOfChildren() - begun;
  double own = 0, shared = 0, peer = 0, sent = 0, received = 0;
  EXPECT_EQ(std::sscanf(result.out.c_str(),
                        "nonlabel_party: %lf own rows, %lf shared, %lf rows of the peer, %lf s, %lf bytes sent, %lf",
                        &own, &shared, &peer, &alignment.seconds, &sent, &received),
            6)
      << result.out;
  alignment.bytes = sent + received;
  alignment.ids = own + peer;
  return alignment;
}

// How many rows the table has of which both parties hold about nine in ten.
int Rows() {
  const char* const rows = std::getenv("SPLITVEIL_BENCH_ALIGNMENT_ROWS");
  return rows == nullptr ? 200'000 : std::atoi(rows);
}

TEST(AlignmentBench, OneMultiplication) {
  const double before = ClockInGhz();
  const Arithmetic ours = OfActivePath(), theirs = OfLibsodium();
  const double ghz = std::max(before, ClockInGhz());
  std::cout << absl::StreamFormat(
      "%.2f GHz; cycles a point, ours and libsodium's: multiplication with decoding and encoding %.0f and %.0f (%.2f "
      "times as fast), with the hash %.0f and %.0f (%.2f), check %.0f and %.0f (%.2f)\n",
      ghz, ours.multiply * ghz, theirs.multiply * ghz, theirs.multiply / ours.multiply, ours.hash_and_multiply * ghz,
      theirs.hash_and_multiply * ghz, theirs.hash_and_multiply / ours.hash_and_multiply, ours.check * ghz,
      theirs.check * ghz, theirs.check / ours.check);
  if (ActiveRistrettoPath() == RistrettoPath::kIfma) {
    EXPECT_GE(theirs.multiply / ours.multiply, 6);
  }
}

TEST(AlignmentBench, BothPartiesBesideTheArithmeticAlone) {
  TwoPartyRun run(Rows());
  const Arithmetic ours = OfActivePath();
  const Alignment fast = Align(run);
  const Arithmetic ours_after = OfActivePath(), theirs = OfLibsodium();
  setenv("SPLITVEIL_CPU", "generic", 1);  // For the children: this process has chosen already.
  const Alignment generic = Align(run);
  unsetenv("SPLITVEIL_CPU");
  const Arithmetic theirs_after = OfLibsodium();
  const double ids = fast.ids, fast_alone = ids * (ours.OfAnId() + ours_after.OfAnId()) / 2,
               generic_alone = ids * (theirs.OfAnId() + theirs_after.OfAnId()) / 2;
  std::cout << absl::StreamFormat(
      "%.2f GHz; %.0f ids of both: CPU %.2f s, %.3f of generic's %.2f s; over the arithmetic alone %.3f, generic %.3f; "
      "%.2f bytes an id\n",
      ClockInGhz(), ids, fast.cpu_ns / 1e9, fast.cpu_ns / generic.cpu_ns, generic.cpu_ns / 1e9,
      fast.cpu_ns / fast_alone, generic.cpu_ns / generic_alone, fast.bytes / ids);
  EXPECT_LE(fast.bytes / ids, 64 * 1.03);
  EXPECT_LE(generic.cpu_ns / generic_alone, 1.25);
  EXPECT_LE(fast.cpu_ns / fast_alone, 1.25);
  if (ActiveRistrettoPath() == RistrettoPath::kIfma) {
    EXPECT_LE(fast.cpu_ns / generic.cpu_ns, 0.2);
  }
}

// Both parties on this machine's processors, which have to move the packets of the link, too.
TEST(AlignmentBench, AcrossAFarLink) {
  if (const std::string missing = EmulatedNetwork::Missing(); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  constexpr double kRoundTripMs = 40, kMbps = 100;
  TwoPartyRun run(/*rows=*/1'015'000);  // Some million at each party.
  for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->mutable_alignment()->set_bucket_ids(65536);  // 16 buckets.
  }
  const auto on_loopback = [&] {
    run.label_config.set_listen_address("127.0.0.1:0");
    run.label_host = "127.0.0.1";
    return Align(run);
  };
  const char* const turns = std::getenv("SPLITVEIL_BENCH_ALIGNMENT_TURNS");
  for (int turn = 0; turn < (turns == nullptr ? 1 : std::atoi(turns)); ++turn) {
    const Arithmetic arithmetic = OfActivePath();
    const Alignment before = on_loopback();
    Alignment across;
    double link_cpu = -CpuTimeOfChildren();
    {
      const EmulatedNetwork network({.round_trip_ms = kRoundTripMs, .mbps = kMbps});
      run.label_config.set_listen_address("0.0.0.0:0");
      run.label_host = EmulatedNetwork::kLabelAddress;
      across = Align(run, &network);
    }
    link_cpu += CpuTimeOfChildren() - across.cpu_ns;
    const Alignment after = on_loopback();
    const double loopback = (before.seconds + after.seconds) / 2, bytes = across.bytes / 2 * 8 / (1e6 * kMbps),
                 ratio = (across.seconds - 20 * kRoundTripMs / 1000) / std::max(loopback, bytes);
    std::cout << absl::StreamFormat(
        "%.2f GHz; %.0f ids of both: %.1f s across %.0f ms and %.0f Mbit/s, where the loopback device takes %.1f and "
        "%.1f s, the arithmetic alone %.1f s and the bytes %.1f s: without 20 round trips %.3f times as long as "
        "the longest; the link itself took %.1f s of processor time, the parties %.1f s, on the loopback device %.1f "
        "s\n",
        ClockInGhz(), across.ids, across.seconds, kRoundTripMs, kMbps, before.seconds, after.seconds,
        across.ids * arithmetic.OfAnId() / 1e9 / std::max(1U, std::thread::hardware_concurrency()), bytes, ratio,
        link_cpu / 1e9, across.cpu_ns / 1e9, (before.cpu_ns + after.cpu_ns) / 2e9);
    EXPECT_LE(ratio, 1.2);
  }
}

}  // namespace
}  // namespace splitveil::testing
