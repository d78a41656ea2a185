#include "tests/testing/process/emulated_network.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "tests/testing/process/running_program.h"

namespace splitveil::testing {
namespace {

constexpr char kEmulator[] = "SPLITVEIL_WAN_EMULATOR";

void Run(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }

void EnterNamespaceOf(int descriptor) { EXPECT_EQ(setns(descriptor, CLONE_NEWNET), 0); }

void Enter(const std::string& name) {
  const int descriptor = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  EnterNamespaceOf(descriptor);
  close(descriptor);
}

}  // namespace

std::string EmulatedNetwork::Missing() {
  if (std::getenv(kEmulator) == nullptr) {
    return absl::StrCat(kEmulator, " names no program that connects network namespaces");
  }
  return geteuid() == 0 ? "" : "root's rights";
}

EmulatedNetwork::EmulatedNetwork(const EmulatedLink& link)
    : own_(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)),
      label_(absl::StrCat("splitveil-l", getpid())),
      nonlabel_(absl::StrCat("splitveil-n", getpid())) {
  for (const std::string& side : {label_, nonlabel_}) {
    Run("ip netns add " + side);
    Run("ip -n " + side + " link set lo up");
  }
  // A packet passes two ports, which both delay and lose it.
  const std::string port = absl::StrFormat("%g:0:%g:%g", link.round_trip_ms / 4, link.mbps, link.loss_percent / 2);
  const std::string output = files_.File("emulator");
  commands_ = popen(absl::StrFormat("%s %s:wan0:%s/24:%s %s:wan0:10.97.31.2/24:%s >%s", std::getenv(kEmulator), label_,
                                    kLabelAddress, port, nonlabel_, port, output)
                        .c_str(),
                    "w");
  for (int i = 0; i < 2000 && ReadWholeFile(output).find("ready") == std::string::npos; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
}

EmulatedNetwork::~EmulatedNetwork() {
  EnterNamespaceOf(own_);
  Send("quit");
  pclose(commands_);
  Run("ip netns delete " + label_);
  Run("ip netns delete " + nonlabel_);
  close(own_);
}

void EmulatedNetwork::EnterLabel() const { Enter(label_); }

void EmulatedNetwork::EnterNonLabel() const { Enter(nonlabel_); }

void EmulatedNetwork::Part(absl::Duration length) {
  Send("down 1");
  absl::SleepFor(length);
  Send("up 1");
}

void EmulatedNetwork::Send(const char* command) {
  std::fprintf(commands_, "%s\n", command);
  std::fflush(commands_);
}

}  // namespace splitveil::testing
