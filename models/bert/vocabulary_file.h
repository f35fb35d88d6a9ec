// The file in which a run has the word pieces that its model reads text by. Pure.
#ifndef SLUICE_MODELS_BERT_VOCABULARY_FILE_H_
#define SLUICE_MODELS_BERT_VOCABULARY_FILE_H_

#include <cstdint>
#include <string>

namespace sluice {

constexpr char kVocabularyFile[] = "vocab.txt";
constexpr int64_t kVocabularyLimit = 64 << 20;  // bytes

// Where the run of a checkpoint has it, if that has one.
std::string VocabularyOfRun(const std::string& checkpoint);

}  // namespace sluice

#endif  // SLUICE_MODELS_BERT_VOCABULARY_FILE_H_
