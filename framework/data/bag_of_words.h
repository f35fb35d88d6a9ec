// What a model that classifies texts is to be compared with: how often guesses are right that know
// nothing of the order of words. Pure; the same numbers on every run.
#ifndef SLUICE_FRAMEWORK_DATA_BAG_OF_WORDS_H_
#define SLUICE_FRAMEWORK_DATA_BAG_OF_WORDS_H_

#include "framework/data/labelled_text.h"

namespace sluice {

// The share of the held-out texts that are of the class that is trained on most often, the first of
// equals.
double MajorityAccuracy(const TextClasses& classes);

// The share of the held-out texts that a linear classifier names right: words weighed by TF-IDF,
// and a support vector machine for each class against all others (squared hinge loss, C = 1), as
// scikit-learn's TfidfVectorizer and LinearSVC have them.
double BagOfWordsAccuracy(const TextClasses& classes);

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_DATA_BAG_OF_WORDS_H_
