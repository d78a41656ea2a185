#include "common/alignment/peer_outbox.h"

#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

#include "tests/testing/process/no_threads.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;

Message Named(int number) {
  Message message;
  message.set_run_id(absl::StrCat(number));
  return message;
}

// Keeps what is sent; `before_send` may wait, and its failure is that of the link.
class RecordingChannel : public AlignmentChannel {
 public:
  absl::Status Send(const Message& message) override {
    begun.store(begun + 1);
    if (absl::Status status = before_send(); !status.ok()) {
      return status;
    }
    sent.push_back(message.run_id());
    return absl::OkStatus();
  }
  absl::StatusOr<Message> Receive() override { return absl::OutOfRangeError("nothing is received here"); }

  std::function<absl::Status()> before_send = [] { return absl::OkStatus(); };
  std::vector<std::string> sent;  // To be read after Flush.
  std::atomic<int> begun = 0;
};

// Messages `first` to `last`; counts in `made` how many.
PeerOutbox::Messages Several(int first, int last, std::atomic<int>* made) {
  return [=, next = first]() mutable -> std::optional<Message> {
    if (next > last) {
      return std::nullopt;
    }
    ++*made;
    return Named(next++);
  };
}

TEST(PeerOutboxTest, SendsEverythingInOrder) {
  RecordingChannel channel;
  std::atomic<int> made = 0;
  PeerOutbox outbox(&channel);
  std::vector<std::string> expected;
  for (int i = 0; i < 300; i += 3) {
    ASSERT_TRUE(outbox.Put(Named(i)).ok());
    ASSERT_TRUE(outbox.Put(Several(i + 1, i + 2, &made)).ok());
    for (const int number : {i, i + 1, i + 2}) {
      expected.push_back(absl::StrCat(number));
    }
  }
  ASSERT_TRUE(outbox.Flush().ok());
  EXPECT_EQ(channel.sent, expected);
  EXPECT_EQ(made, 200);
}

TEST(PeerOutboxTest, MakesAMessageOnlyWhenTheLinkTakesIt) {
  RecordingChannel channel;
  absl::Notification begun, go;
  channel.before_send = [&] {
    if (!begun.HasBeenNotified()) {
      begun.Notify();
      go.WaitForNotification();
    }
    return absl::OkStatus();
  };
  std::atomic<int> made = 0;
  PeerOutbox outbox(&channel);
  ASSERT_TRUE(outbox.Put(Several(1, 1000, &made)).ok());  // Takes one place, and does not wait for the link.
  begun.WaitForNotification();
  EXPECT_EQ(made, 1);
  go.Notify();
  ASSERT_TRUE(outbox.Flush().ok());
  EXPECT_EQ(made, 1000);
  EXPECT_EQ(channel.sent.size(), 1000);
}

TEST(PeerOutboxTest, WhatWasDroppedIsNotSent) {
  RecordingChannel channel;
  absl::Notification begun, go;
  channel.before_send = [&] {
    if (!begun.HasBeenNotified()) {
      begun.Notify();
      go.WaitForNotification();
    }
    return absl::OkStatus();
  };
  std::atomic<int> made = 0;
  PeerOutbox outbox(&channel);
  ASSERT_TRUE(outbox.Put(Several(1, 1000, &made)).ok());
  ASSERT_TRUE(outbox.Put(Named(2000)).ok());
  begun.WaitForNotification();
  outbox.Clear();
  ASSERT_TRUE(outbox.Put(Named(3000)).ok());
  go.Notify();
  ASSERT_TRUE(outbox.Flush().ok());
  EXPECT_THAT(channel.sent, ::testing::ElementsAre("1", "3000"));
}

TEST(PeerOutboxTest, ALostLinkEndsEveryWait) {
  RecordingChannel channel;
  channel.before_send = [] { return absl::UnavailableError("cut"); };
  PeerOutbox outbox(&channel);
  absl::Status status;
  for (int i = 0; status.ok() && i < 1000; ++i) {
    status = outbox.Put(Named(i));
  }
  EXPECT_EQ(status, absl::UnavailableError("cut"));
  EXPECT_EQ(outbox.Flush(), absl::UnavailableError("cut"));
  EXPECT_EQ(channel.begun, 1);
}

TEST(PeerOutboxTest, MessagesThatCannotBeMadeAreAFailure) {
  RecordingChannel channel;
  PeerOutbox outbox(&channel);
  ASSERT_TRUE(outbox.Put([]() -> std::optional<Message> { throw std::bad_alloc(); }).ok());
  EXPECT_TRUE(absl::IsInternal(outbox.Flush()));
}

TEST(PeerOutboxTest, ThrowsWhereThereIsNoThread) {
  RecordingChannel channel;
  const testing::NoThreads no_threads;
  EXPECT_THROW(PeerOutbox outbox(&channel), std::system_error);
}

}  // namespace
}  // namespace splitveil
