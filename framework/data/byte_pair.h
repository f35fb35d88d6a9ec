// Byte pair encoding as GPT-2 has it: any bytes as tokens, and back without loss. Tokens are those
// of tiktoken's "gpt2" and of Hugging Face's, except that Unicode is of version 15 here. Once made
// it changes no more: any thread, several at once.
#ifndef SLUICE_FRAMEWORK_DATA_BYTE_PAIR_H_
#define SLUICE_FRAMEWORK_DATA_BYTE_PAIR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// Of GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// how many bytes match at the beginning of a text that is not empty. A byte that is no UTF-8 is
// none of a letter, a number and white space.
size_t FirstWord(absl::string_view text);

class BytePair {
 public:
  // `encoder` is encoder.json (vocab.json), each token and its id, in which a byte stands as a
  // printable character; `merges` is vocab.bpe (merges.txt), after a line "#version" a pair of
  // tokens a line, those to join first before others. Errors say which of the two, with what names
  // they are given, and where: ids that are not 0, 1, .., each once; a byte without a token; a pair
  // of which a part or the whole is no token, or that is there twice.
  static absl::StatusOr<BytePair> Parse(absl::string_view encoder_name, absl::string_view encoder,
                                        absl::string_view merges_name, absl::string_view merges);

  // Appends the tokens of a text: of each word of the pattern its bytes, of which the neighbours
  // that come first among the pairs, the leftmost of equals, are joined until none are left. What
  // looks like <|endoftext|> in a text is text.
  void Encode(absl::string_view text, std::vector<int32_t>* tokens) const;
  // The bytes of tokens; they need not be UTF-8. OutOfRange: which token is none.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const;

  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  const std::string& bytes(int32_t token) const { return bytes_[token]; }
  int32_t end_of_text() const { return end_of_text_; }  // -1: there is none
  // A stable digest of the tokens and of the pairs in their order, whatever file they came from.
  uint64_t digest() const;

 private:
  using Pair = uint64_t;  // the left token above the right one
  struct Merge {
    int32_t rank = 0, token = 0;
  };
  struct Scratch;
  absl::Status ReadEncoder(absl::string_view name, absl::string_view encoder);
  absl::Status ReadMerges(absl::string_view name, absl::string_view merges);
  void EncodeWord(absl::string_view word, Scratch* scratch, std::vector<int32_t>* tokens) const;
  void Push(int64_t left, Scratch* scratch) const;

  std::vector<std::string> bytes_;                    // of each token
  absl::flat_hash_map<std::string, int32_t> tokens_;  // by their bytes
  std::vector<int32_t> byte_tokens_;                  // of each byte
  absl::flat_hash_map<Pair, Merge> merges_;
  int32_t end_of_text_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_BYTE_PAIR_H_
