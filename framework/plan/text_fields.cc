#include "framework/plan/text_fields.h"

#include "framework/tensor/shard.h"

namespace sluice::plan_text {

absl::Status FieldScanner::Fields(const std::vector<Field>& fields) {
  while (LineGoesOn()) {
    bool known = false;
    for (const Field& field : fields) {
      if (!scanner_.Accept(field.name)) continue;
      RETURN_IF_ERROR(field.read());
      known = true;
      break;
    }
    if (!known) {
      return scanner_.Error(absl::StrCat("unknown field \"", scanner_.Peek().text, "\""));
    }
  }
  return {};
}

absl::Status FieldScanner::DTypeWord(int32_t* out) {
  if (scanner_.Peek().kind == Kind::kInteger) return Number("a dtype", out);
  const TextScanner::Token token = scanner_.Peek();
  ASSIGN_OR_RETURN(const std::string word, scanner_.Identifier("a dtype"));
  const absl::StatusOr<DType> dtype = ParseDType(word);
  if (!dtype.ok()) return scanner_.ErrorAt(token, dtype.status().message());
  *out = static_cast<int32_t>(*dtype);
  return {};
}

absl::Status FieldScanner::ReductionWord(int32_t* out) {
  if (scanner_.Peek().kind == Kind::kInteger) return Number("a reduction", out);
  for (Reduction r : {Reduction::kNone, Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    if (!scanner_.Accept(ReductionName(r))) continue;
    *out = static_cast<int32_t>(r);
    return {};
  }
  return scanner_.Error("expected a reduction: none, sum, max or min");
}

absl::Status FieldScanner::Shard(plan::Shard* shard) {
  int32_t number = 0;
  RETURN_IF_ERROR(DTypeWord(&number));
  shard->set_dtype(number);
  RETURN_IF_ERROR(List(shard->mutable_local()));
  if (More("of")) {
    RETURN_IF_ERROR(List(shard->mutable_logical()));
  } else {
    *shard->mutable_logical() = shard->local();
  }
  for (auto [word, list] : {std::pair<const char*, Longs*>{"at", shard->mutable_offset()},
                            {"by", shard->mutable_stride_per_micro()}}) {
    if (More(word)) {
      RETURN_IF_ERROR(List(list));
    } else {
      list->Resize(shard->local_size(), 0);
    }
  }
  if (!More("partial")) return {};
  RETURN_IF_ERROR(ReductionWord(&number));
  shard->set_partial(number);
  return {};
}

}  // namespace sluice::plan_text
