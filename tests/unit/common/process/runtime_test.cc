#include "common/process/runtime.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;
using ::testing::StartsWith;

std::string ProbeOutput(std::vector<std::pair<std::string, std::string>> environment,
                        const std::vector<std::string>& arguments = {}) {
  std::vector<std::string> argv = {RUNTIME_PROBE};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  testing::ChildOptions options;
  options.environment = std::move(environment);
  const testing::ChildResult result = testing::RunChild(argv, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

const std::pair<std::string, std::string> kNoThreads = {"OPENBLAS_NUM_THREADS", ""};
const std::pair<std::string, std::string> kNoCoreType = {"OPENBLAS_CORETYPE", ""};

TEST(TuneRuntimeTest, SetsOneBlasThreadWhereUnset) {
  EXPECT_THAT(ProbeOutput({kNoThreads, kNoCoreType}), HasSubstr("OPENBLAS_NUM_THREADS=1\n"));
}

TEST(TuneRuntimeTest, KeepsTheThreadsTheUserHasSet) {
  EXPECT_THAT(ProbeOutput({{"OPENBLAS_NUM_THREADS", "7"}, kNoCoreType}), HasSubstr("OPENBLAS_NUM_THREADS=7\n"));
}

TEST(TuneRuntimeTest, PicksAvx512KernelsOnlyWhereTheCpuHasThem) {
#if defined(__x86_64__)
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  const bool has_avx512 = false;
#endif
  EXPECT_THAT(ProbeOutput({kNoThreads, kNoCoreType}),
              HasSubstr(has_avx512 ? "OPENBLAS_CORETYPE=SKYLAKEX\n" : "OPENBLAS_CORETYPE=(unset)\n"));
}

TEST(TuneRuntimeTest, KeepsTheKernelsTheUserHasSet) {
  EXPECT_THAT(ProbeOutput({kNoThreads, {"OPENBLAS_CORETYPE", "Haswell"}}), HasSubstr("OPENBLAS_CORETYPE=Haswell\n"));
}

TEST(TuneRuntimeTest, ThreadsThatWaitSleepWhereTheUserDoesNotSay) {
  EXPECT_THAT(ProbeOutput({kNoThreads, {"OMP_WAIT_POLICY", ""}}), HasSubstr("OMP_WAIT_POLICY=passive\n"));
  EXPECT_THAT(ProbeOutput({kNoThreads, {"OMP_WAIT_POLICY", "active"}}), HasSubstr("OMP_WAIT_POLICY=active\n"));
  EXPECT_THAT(ProbeOutput({{"OPENBLAS_THREAD_TIMEOUT", ""}}), HasSubstr("OPENBLAS_THREAD_TIMEOUT=17\n"));
  EXPECT_THAT(ProbeOutput({{"OPENBLAS_THREAD_TIMEOUT", "26"}}), HasSubstr("OPENBLAS_THREAD_TIMEOUT=26\n"));
}

TEST(TuneRuntimeTest, SilencesGrpcWhereTheUserDoesNotSay) {
  EXPECT_THAT(ProbeOutput({{"GRPC_VERBOSITY", ""}}), HasSubstr("GRPC_VERBOSITY=NONE\n"));
  EXPECT_THAT(ProbeOutput({{"GRPC_VERBOSITY", "DEBUG"}}), HasSubstr("GRPC_VERBOSITY=DEBUG\n"));
}

TEST(TuneRuntimeTest, KeepsArgumentsAndProcessName) {
  const std::string out = ProbeOutput({kNoThreads, kNoCoreType}, {"--config=a b.textproto", ""});
  EXPECT_THAT(out, HasSubstr("argv[0]=" RUNTIME_PROBE "\nargv[1]=--config=a b.textproto\nargv[2]=\n"));
  EXPECT_THAT(out, HasSubstr("name=runtime_probe\n"));
}

TEST(TuneRuntimeTest, StartsTheProgramOnce) {
  // The probe says so before main: what a library does when it is loaded is not done twice.
  EXPECT_THAT(ProbeOutput({kNoThreads, kNoCoreType}), StartsWith("started with OPENBLAS_NUM_THREADS=1\nOPENBLAS"));
}

// Linux executes nothing whose arguments and environment take more than a quarter of the stack.
TEST(TuneRuntimeTest, GoesOnWhereItCannotExecuteAgain) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &before), 0);
  const rlimit low = {512 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &low), 0);
  testing::ChildOptions options;
  options.environment = {kNoThreads, kNoCoreType, {"OMP_WAIT_POLICY", ""}, {"OPENBLAS_THREAD_TIMEOUT", ""}};
  testing::ChildResult latest;
  size_t filler = 110'000;
  for (const size_t step : {4096, 256, 16}) {
    for (bool fits = true; fits; filler += step) {
      auto filled = options;
      filled.environment.emplace_back("SPLITVEIL_TEST_FILLER", std::string(filler, 'x'));
      const testing::ChildResult result = testing::RunChild({RUNTIME_PROBE}, filled);
      fits = result.exit_code == 0;
      latest = fits ? result : latest;
    }
    filler -= 2 * step;  // The latest that did.
  }
  EXPECT_EQ(setrlimit(RLIMIT_STACK, &before), 0);
  EXPECT_THAT(latest.out, HasSubstr("OPENBLAS_NUM_THREADS=(unset)\n"));
}

TEST(TuneRuntimeTest, ForbidsCoreDumpsUnlessTheUserAllowsThem) {
  EXPECT_THAT(ProbeOutput({{"SPLITVEIL_CORE_DUMPS", ""}}), HasSubstr("dumpable=0 core_bytes=0\n"));
  EXPECT_THAT(ProbeOutput({{"SPLITVEIL_CORE_DUMPS", "1"}}), HasSubstr("dumpable=1 "));
}

TEST(TuneRuntimeTest, AllowsAsManyFilesAsTheSystemDoes) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_THAT(ProbeOutput({}), HasSubstr("all_files=1\n"));
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(TuneRuntimeTest, KeepsBigBlocksInTheHeap) {
  EXPECT_THAT(ProbeOutput({kNoThreads, kNoCoreType}), HasSubstr("mapped_blocks=0\n"));
}

TEST(HandleStopSignalsTest, FirstSignalOnlySetsTheFlag) {
  for (const int signal_number : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          HandleStopSignals();
          const bool before = StopRequested();
          std::raise(signal_number);
          _exit(!before && StopRequested() ? 0 : 1);
        },
        ExitedWithCode(0), "");
  }
}

TEST(HandleStopSignalsTest, SecondSignalKills) {
  EXPECT_EXIT(
      {
        HandleStopSignals();
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        _exit(1);
      },
      KilledBySignal(SIGTERM), "");
}

TEST(HandleStopSignalsTest, SecondSignalKillsAlsoWhenItIsAnother) {
  EXPECT_EXIT(
      {
        HandleStopSignals();
        std::raise(SIGTERM);
        std::raise(SIGINT);
        _exit(1);
      },
      KilledBySignal(SIGINT), "");
}

TEST(HandleStopSignalsTest, AReaderOfTheLogThatGoesAwayDoesNotKill) {
  EXPECT_EXIT(
      {
        HandleStopSignals();
        int ends[2];
        const bool broken = pipe(ends) == 0 && close(ends[0]) == 0 && write(ends[1], "x", 1) < 0;
        _exit(broken && !StopRequested() ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST(HandleStopSignalsTest, AHangupAsksForCertificatesAndStopsNothing) {
  EXPECT_EXIT(
      {
        HandleReloadSignal();
        raise(SIGHUP);
        raise(SIGHUP);
        _exit(ReloadRequests() == 2 && !StopRequested() ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST(HandleStopSignalsTest, WithoutItASignalKills) {
  EXPECT_EXIT(
      {
        std::raise(SIGTERM);
        _exit(1);
      },
      KilledBySignal(SIGTERM), "");
}

TEST(GiveWayToOtherThreadsTest, LowersTheCallingThreadAlone) {
  const int before = getpriority(PRIO_PROCESS, 0);
  int lowered = 0;
  std::thread([&lowered] {
    GiveWayToOtherThreads();
    lowered = getpriority(PRIO_PROCESS, 0);
  }).join();
  EXPECT_EQ(lowered, std::min(before + 5, 19));
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

using ::testing::ExitedWithCode;

constexpr char kReference[] = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3";
constexpr char kOpenBlas[] = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";

bool Load(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr; }

TEST(ReferenceBlasPathTest, IsEmptyWhereNoneIsLoaded) { EXPECT_EQ(ReferenceBlasPath(), ""); }

TEST(SetBlasThreadsTest, FailsWhereNoOpenBlasIsLoaded) { EXPECT_FALSE(SetBlasThreads(2)); }

TEST(WarnIfSlowBlasTest, IsSilentWhereNoBlasIsLoaded) {
  EXPECT_EXIT(
      {
        WarnIfSlowBlas();
        _exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST(WarnIfSlowBlasTest, WarnsOfTheReferenceBlasBehindALink) {
  if (!std::filesystem::exists(kReference)) {
    GTEST_SKIP() << kReference << " is not installed";
  }
  // As Debian's alternatives have it: the name the program loads is a link to a link.
  testing::TempFolder folder;
  std::filesystem::create_symlink(kReference, folder.File("chosen"));
  std::filesystem::create_symlink(folder.File("chosen"), folder.File("libblas.so.3"));
  EXPECT_EXIT(
      {
        if (!Load(folder.File("libblas.so.3"))) {
          _exit(1);
        }
        WarnIfSlowBlas();
        _exit(0);
      },
      ExitedWithCode(0), "WARNING SLOW: .*blas/libblas.so.3.*libopenblas0-pthread");
}

// As containers have it: a link, or the file itself, of a name that says nothing.
TEST(WarnIfSlowBlasTest, IsSilentOnOpenBlasUnderANeutralName) {
  if (!std::filesystem::exists(kOpenBlas)) {
    GTEST_SKIP() << kOpenBlas << " is not installed";
  }
  for (const bool is_link : {true, false}) {
    testing::TempFolder folder;
    if (is_link) {
      std::filesystem::create_symlink(kOpenBlas, folder.File("libblas.so.3"));
    } else {
      std::filesystem::copy_file(kOpenBlas, folder.File("libblas.so.3"));
    }
    EXPECT_EXIT(
        {
          if (!Load(folder.File("libblas.so.3"))) {
            _exit(1);
          }
          WarnIfSlowBlas();
          _exit(0);
        },
        ExitedWithCode(0), "^$")
        << is_link;
  }
}

TEST(SetBlasThreadsTest, ReachesOpenBlasAndRefusesLessThanOne) {
  if (!std::filesystem::exists(kOpenBlas)) {
    GTEST_SKIP() << kOpenBlas << " is not installed";
  }
  EXPECT_EXIT(
      {
        if (!Load(kOpenBlas)) {
          _exit(1);
        }
        const auto threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
        const bool raised = SetBlasThreads(2) && threads() == 2;
        const bool kept = !SetBlasThreads(0) && threads() == 2;
        _exit(raised && kept ? 0 : 2);
      },
      ExitedWithCode(0), "");
}

TEST(VersionTest, IsTheProjectsVersion) { EXPECT_STREQ(Version(), PROJECT_VERSION); }

}  // namespace
}  // namespace splitveil
