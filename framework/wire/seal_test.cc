#include "framework/wire/seal.h"

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr char kSecret[] = "a secret of thirty-two bytes....";

std::string Handshake() {
  std::string messages(224, '\0');
  for (size_t i = 0; i < messages.size(); ++i) messages[i] = static_cast<char>(i);
  return messages;
}

template <typename Of>
std::string Hex(const Of& bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

SealKey ClientKey() { return DeriveSealKeys(kSecret, Handshake(), Side::kClient)->sends; }

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Bytes Sealed(Sealer* sealer, absl::string_view text) {
  Bytes record(text.size() + kRecordExtraBytes);
  const absl::Span<const std::byte> part = BytesOf(text);
  EXPECT_TRUE(sealer->Seal({&part, 1}, text.size(), record.data()).ok());
  return record;
}

absl::StatusOr<std::string> Opened(Opener* opener, const Bytes& record) {
  std::string text(record.size() - kRecordExtraBytes, '?');
  const absl::Status status = opener->Open(record, reinterpret_cast<std::byte*>(text.data()));
  if (!status.ok()) {
    // Nothing was written, or none of it stands there any more.
    EXPECT_TRUE(text == std::string(text.size(), text[0]) && (text[0] == '\0' || text[0] == '?'));
    return status;
  }
  return text;
}

// Of another implementation: hmac and hashlib of Python.
TEST(SealKeysTest, AreThoseOfHkdf) {
  const auto client = DeriveSealKeys(kSecret, Handshake(), Side::kClient);
  const auto server = DeriveSealKeys(kSecret, Handshake(), Side::kServer);
  ASSERT_TRUE(client.ok() && server.ok());
  EXPECT_EQ(Hex(client->sends), "95498e4f7f724ed5d80e1987a16a152abd9a573f96becd8273bb880b794a34ae");
  EXPECT_EQ(Hex(client->receives),
            "084c9fb021e223792d4361bbc924c11723ab3afafe3eeac9ebdef164623f865f");
  EXPECT_EQ(server->sends, client->receives);
  EXPECT_EQ(server->receives, client->sends);
}

TEST(SealKeysTest, AreOthersAfterAnyOtherHandshake) {
  std::string other = Handshake();
  for (size_t i = 0; i < other.size(); ++i) {
    other[i] ^= 1;
    EXPECT_NE(DeriveSealKeys(kSecret, other, Side::kClient)->sends, ClientKey()) << "byte " << i;
    other[i] ^= 1;
  }
  EXPECT_NE(DeriveSealKeys("another secret", other, Side::kClient)->sends, ClientKey());
}

TEST(SealKeysTest, TakeASecret) {
  EXPECT_TRUE(absl::IsInvalidArgument(DeriveSealKeys("", Handshake(), Side::kClient).status()));
}

// Of another implementation: the package cryptography of Python.
TEST(SealerTest, MakesWhatAnyAesGcmMakes) {
  Sealer sealer(ClientKey());
  EXPECT_EQ(Hex(Sealed(&sealer, "gradients")),
            "09000000df4d61e86433abe1097e6346bbcc57169ad3a38cd9a9e269f8");
  Sealer later(ClientKey(), 7);
  EXPECT_EQ(Hex(Sealed(&later, "x")), "010000000ed5be17c9a6a253d9861c1b2a797f7533");
}

TEST(SealerTest, PartsAreOneBehindAnother) {
  Sealer whole(ClientKey()), parts(ClientKey());
  Bytes record(9 + kRecordExtraBytes);
  const std::vector<absl::Span<const std::byte>> of = {
      BytesOf("grad"), {}, BytesOf("i"), BytesOf("ents")};
  ASSERT_TRUE(parts.Seal(of, 9, record.data()).ok());
  EXPECT_EQ(record, Sealed(&whole, "gradients"));
}

TEST(OpenerTest, OpensRecordsOfAnySize) {
  Sealer sealer(ClientKey());
  Opener opener(ClientKey());
  for (const size_t size : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, kMostRecordBytes}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31);
    const auto opened = Opened(&opener, Sealed(&sealer, text));
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(*opened, text);
  }
}

TEST(OpenerTest, OpensWhereTheRecordStands) {
  Sealer sealer(ClientKey());
  Opener opener(ClientKey());
  Bytes record = Sealed(&sealer, "gradients");
  ASSERT_TRUE(opener.Open(record, record.data() + kRecordHeadBytes).ok());
  EXPECT_EQ(std::memcmp(record.data() + kRecordHeadBytes, "gradients", 9), 0);
}

TEST(OpenerTest, AnyBitThatIsChangedIsFound) {
  Sealer sealer(ClientKey());
  const Bytes record = Sealed(&sealer, "gradients");
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    Bytes changed = record;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    Opener opener(ClientKey());
    const auto opened = Opened(&opener, changed);
    EXPECT_TRUE(absl::IsDataLoss(opened.status())) << "bit " << bit;
    EXPECT_THAT(opened.status().message(), HasSubstr("record 0 of its sealed connection"));
    // Nothing opens behind it.
    EXPECT_EQ(Opened(&opener, record).status(), opened.status());
  }
}

TEST(OpenerTest, ARecordIsOfNoUseInAnotherPlace) {
  Sealer sealer(ClientKey());
  const Bytes first = Sealed(&sealer, "first"), second = Sealed(&sealer, "second");
  Opener lost(ClientKey()), repeated(ClientKey()), returned(ClientKey());
  EXPECT_TRUE(absl::IsDataLoss(Opened(&lost, second).status()));
  ASSERT_TRUE(Opened(&repeated, first).ok());
  EXPECT_TRUE(absl::IsDataLoss(Opened(&repeated, first).status()));
  // Nor to who has sent it.
  Opener own(DeriveSealKeys(kSecret, Handshake(), Side::kClient)->receives);
  EXPECT_TRUE(absl::IsDataLoss(Opened(&own, first).status()));
}

TEST(OpenerTest, AHeadSaysOneByteToTheMost) {
  const auto read = [](uint32_t count) {
    std::array<std::byte, kRecordHeadBytes> head;
    std::memcpy(head.data(), &count, sizeof(count));
    return Opener::ReadHead(head);
  };
  EXPECT_EQ(*read(1), 1);
  EXPECT_EQ(*read(kMostRecordBytes), kMostRecordBytes);
  for (const uint32_t bad : {uint32_t{0}, uint32_t{kMostRecordBytes + 1}, UINT32_MAX}) {
    EXPECT_TRUE(absl::IsInvalidArgument(read(bad).status()));
    EXPECT_THAT(read(bad).status().message(), HasSubstr(absl::StrCat("got ", bad)));
  }
}

TEST(SealTest, TheKeyChangesForBoth) {
  const uint64_t last = SealCipher::kRecordsAKey - 1;
  Sealer sealer(ClientKey(), last), same_key(ClientKey(), last);
  Opener opener(ClientKey(), last);
  EXPECT_EQ(*Opened(&opener, Sealed(&sealer, "of the first key")), "of the first key");
  const Bytes next = Sealed(&sealer, "of the next key");
  EXPECT_EQ(Hex(next), "0f0000000ea2d8a355562f0bd85d59ae426ab87bcd24bedd0a8832acfd9e1ca39700ff");
  EXPECT_EQ(*Opened(&opener, next), "of the next key");
}

TEST(SealTest, TheLastNumberEndsTheConnection) {
  const uint64_t last = std::numeric_limits<uint64_t>::max() - 1;
  Sealer sealer(ClientKey(), last);
  Opener opener(ClientKey(), last);
  const Bytes record = Sealed(&sealer, "last");
  EXPECT_EQ(*Opened(&opener, record), "last");
  Bytes another(record.size());
  const absl::Span<const std::byte> part = BytesOf("more");
  EXPECT_TRUE(absl::IsResourceExhausted(sealer.Seal({&part, 1}, 4, another.data())));
  EXPECT_TRUE(absl::IsResourceExhausted(Opened(&opener, record).status()));
}

}  // namespace
}  // namespace sluice
