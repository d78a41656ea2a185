// Diffie-Hellman private set intersection on ristretto255.
//
//        party A, key a                                     party B, key b
//   AlignIds(x_1..x_m)   SetSize{m}              ────►  ◄────  SetSize{n}             AlignIds(y_1..y_n)
//   MaskAndCommit        masked_commitment       ────►  ◄────  masked_commitment           MaskAndCommit
//   SendMasked           masked H(x)^a, shuffled ────►  ◄────  masked H(y)^b, shuffled        SendMasked
//   AnswerPeer           double_masked_commitment────►  ◄────  double_masked_commitment       AnswerPeer
//   SendAnswers          double_masked H(y)^ba   ────►  ◄────  double_masked H(x)^ab         SendAnswers
//   Intersect            { H(x)^ab } ∩ { H(y)^ba }, ascending: the order both share           Intersect
//   CompareOutcome       outcome                 ────►  ◄────  outcome                   CompareOutcome
//
// A large set is split into buckets by a hash of the id, under a key of which each party draws a half (bucket_key).
// Both commit to the points of all buckets; SendMasked to Intersect then follow for one bucket after the other.
//
// Meadows (IEEE S&P 1986); Huberman, Franklin and Hogg (EC 1999); the group and the map H into it: RFC 9496. The keys
// are drawn for one run and wiped after it. Under the decisional Diffie-Hellman assumption, with H a random oracle,
// each party learns which of its own ids the other has, and how many ids the other has; nothing of the others, which
// are random points to it. Neither party's file order shows: both send in a secret random order.
//
// Against a party that does not follow the protocol: it is committed to its set before it sees a point of the other's,
// and to its answers before it sees an answer, so that it can make up neither from what the other sent (a set of the
// other's own points, raised to any power, would otherwise "share" every id). Answers go out in step, so that a party
// that stops early has learned at most three in 64 of them more than the other. Answers that are swapped, or made with
// several exponents, show in test points. What is left: a party may name ids that it does not
// hold, to test for them, and leave out some that it holds; and it may answer with another exponent than it masked its
// own ids with, which makes the other find nothing, while it finds all: AlignmentOptions::min_shared_ids refuses that,
// after the fact.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
#define SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_

#include <string>

#include "absl/status/statusor.h"

#include "common/alignment/alignment_options.h"
#include "common/crypto/digest.h"
#include "common/dataset/id_list.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// party.spill_path, or what stands for it.
std::string SpillPath(const v1::PartyCommon& party);

// As the parties agreed, for a run. `party`: where buckets are spilled; `identities`: IdentitySha256, for the binding.
AlignmentOptions AgreedAlignment(const v1::AlignmentAgreement& agreement, const v1::PartyCommon& party,
                                 const Digest& identities, std::string run_id);

// Runs the whole protocol on `channel` and returns when the own half of it is done; the same call at both parties. An
// empty intersection is a result, not an error, unless min_shared_ids says so.
// `ids`: byte strings, trimmed by the caller; distinct and not empty, else InvalidArgument with counts before anything
// is sent. Errors about the peer: InvalidArgument for malformed messages (including an announced empty set, repeated
// ids, points other than those committed to, our own sent back, answers by several exponents), FailedPrecondition for
// messages out of turn or of another run, fewer or more shared ids than agreed, a missing canary or another outcome,
// Unavailable when it closes early, otherwise what the channel returned. Internal where memory or threads run out. No
// id, point or key is ever in a message.
absl::StatusOr<AlignedIds> AlignIds(const IdList& ids, const AlignmentOptions& options, AlignmentChannel& channel);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
