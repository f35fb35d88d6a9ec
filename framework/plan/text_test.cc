#include "framework/plan/text.h"

#include <random>
#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

void ExpectRoundTrip(const plan::Plan& plan) {
  const std::string text = PrintPlan(plan);
  const absl::StatusOr<plan::Plan> again = ParsePlan(text, "plan.txt");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(plan, *again)) << difference << text;
  EXPECT_EQ(PrintPlan(*again), text);
}

TEST(PlanTextTest, HandWrittenPlanGetsItsDefaults) {
  const absl::StatusOr<plan::Plan> plan = ParsePlan(R"(
    actor feed on d0.host.load x 4; x = feed(1)
    actor F0 on d0.compute x 4
      %h = mul(x, w) cost 9
      G += mul(%h, x)          # an accumulator
      y takes 1 = copy(%h)
    actor U on d0.compute; w -= copy(G)
    actor fetch on d1.host x 4; log(y)
    reg w bytes 256 tokens 1 variable w; reg G every 4; reg x quota 2
  )");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->devices_size(), 2);
  ASSERT_EQ(plan->programs_size(), 1);
  const plan::Program& p = plan->programs(0);
  EXPECT_EQ(p.name(), "main");
  ASSERT_EQ(p.streams_size(), 3);
  EXPECT_EQ(p.streams(0).kind(), plan::STREAM_HOST);
  EXPECT_EQ(p.streams(2).device(), 1);
  ASSERT_EQ(p.actors_size(), 4);
  EXPECT_EQ(p.actors(0).script(0).attributes(), "1");
  const plan::Instruction& update = p.actors(1).script(1);
  EXPECT_EQ(update.op(), "mul");
  ASSERT_EQ(update.inputs_size(), 3);
  EXPECT_TRUE(update.inputs(2).updates());
  EXPECT_EQ(p.actors(1).script(2).outputs(0).takes(), 1);
  EXPECT_EQ(p.actors(2).script(0).attributes(), "subtract");
  for (const plan::Register& r : p.registers()) {
    if (r.name() == "w") {
      EXPECT_EQ(r.producer(), 2);
    }
    if (r.name() == "G") {
      EXPECT_EQ(r.producer(), 1);
    }
    if (r.name() == "x") {
      EXPECT_EQ(r.quota(), 2);
    }
    if (r.name() == "y") {
      EXPECT_EQ(r.device(), 0);
    }
  }
  EXPECT_EQ(p.temporaries(0).actor(), 1);
  ExpectRoundTrip(*plan);
}

TEST(PlanTextTest, ErrorsSayWhereAndWhat) {
  const auto error = [](const std::string& text) {
    return std::string(ParsePlan(text, "p").status().message());
  };
  EXPECT_NE(error("actor a on host").find("p:1:12: expected a stream such as d0.compute"),
            std::string::npos);
  EXPECT_NE(error("reg x quota").find("a number after quota"), std::string::npos);
  EXPECT_NE(error("reg x kuota 2").find("p:1:7: unknown field \"kuota\""), std::string::npos);
  EXPECT_NE(error("actor first on d0.compute\n f()\norder d0.compute (frst 0 0 1)")
                .find("no actor \"frst\"; did you mean \"first\"?"),
            std::string::npos);
  EXPECT_NE(error("x = f()").find("expected a statement"), std::string::npos);
  EXPECT_NE(error("actor a on d0.compute\n f(x : f99 [1])").find("f99"), std::string::npos);
}

// A plan with every field set, to values that need not make sense together.
class RandomPlan {
 public:
  explicit RandomPlan(int seed) : random_(seed) {}

  plan::Plan Make() {
    plan::Plan plan;
    plan.set_digest(Name());
    plan.set_representatives_only(Below(2));
    plan.set_rank(Below(3));
    for (int n = Below(3); n > 0; --n) {
      plan::Decision* decision = plan.add_decisions();
      decision->set_what(Name());
      decision->set_digest(~uint64_t{0} - Below(99));
    }
    for (int n = Below(3); n > 0; --n) {
      plan::Device* d = plan.add_devices();
      d->set_rank(Below(4));
      d->set_local(Below(4));
      d->set_variable_bytes(Below(999));
      d->set_memory_bytes(Below(999));
    }
    for (int n = Below(3); n > 0; --n) {
      plan::Variable* v = plan.add_variables();
      v->set_name(Name());
      v->set_init(Name());
      v->set_layout(Name());
      v->set_dtype(Below(4));
      List(v->mutable_shape());
      for (int m = Below(3); m > 0; --m) {
        plan::VariableShard* p = v->add_shards();
        p->set_device(Below(3));
        p->set_offset(Below(99));
        p->set_replica(Below(2));
        if (Below(2)) MakeShard(p->mutable_shard());
      }
    }
    for (int n = Below(3); n > 0; --n) MakeProgram(plan.add_programs());
    return plan;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % n); }
  std::string Name() {
    static const char* const kNames[] = {"a",   "b.c/d",  "x y",  "",    "$1",   "reg", "nan",
                                         "q\"", "back\\", "%loc", "a-b", "1two", "w~2", "actor"};
    return kNames[Below(14)];
  }
  template <typename Values>
  void List(Values* out) {
    for (int n = Below(4); n > 0; --n) out->Add(Below(9) - 2);
  }
  void MakeShard(plan::Shard* p) {
    p->set_dtype(Below(4));
    List(p->mutable_local());
    if (Below(2))
      *p->mutable_logical() = p->local();
    else
      List(p->mutable_logical());
    List(p->mutable_offset());
    if (Below(2)) p->mutable_stride_per_micro()->Resize(p->local_size(), 0);
    p->set_partial(Below(4));
  }
  void MakeOperand(plan::Program* p, plan::Operand* x) {
    if (Below(2)) MakeShard(x->mutable_shard());
    if (Below(2) && p->registers_size() > 0) {
      x->set_register_(Below(p->registers_size()));
    } else if (Below(3) && p->temporaries_size() > 0) {
      x->set_temporary(Below(p->temporaries_size()));
    }
    x->set_offset(Below(3) * 64);
  }
  void MakeInstruction(plan::Program* p, plan::Instruction* x) {
    // Also kinds that there are not, and names of kinds as ops.
    x->set_op(Below(5) ? (Below(2) ? "matmul" : "copy") : Name());
    x->set_kind(static_cast<plan::InstructionKind>(Below(11)));
    if (Below(2)) x->clear_op();
    x->set_attributes(Name());
    for (int n = Below(4); n > 0; --n) {
      MakeOperand(p, x->add_inputs());
      x->mutable_inputs(x->inputs_size() - 1)->set_updates(Below(4) == 0);
    }
    for (int n = Below(3); n > 0; --n) MakeOperand(p, x->add_outputs());
    x->set_scope(Name());
    x->set_flops(Below(3));
    x->set_bytes(Below(3));
    x->set_scratch(Below(3));
    if (Below(2) == 1) x->set_scratch_offset(Below(3));
    x->set_nanoseconds(Below(3));
    x->set_collective(Below(3));
    x->set_reduction(Below(4));
    x->set_fill_identity(Below(2));
    x->set_port(Below(2));
    x->set_wire_bytes(Below(3));
    x->set_number(Below(9));
    x->set_calls(Below(3));
    for (int n = Below(3); n > 0; --n) {
      plan::Region* r = x->add_regions();
      List(r->mutable_begin());
      List(r->mutable_end());
      List(r->mutable_sources());
      List(r->mutable_fold());
      List(r->mutable_source_offsets());
      for (int m = Below(3); m > 0; --m) List(r->add_source_strides()->mutable_values());
      r->set_offset(Below(9));
      List(r->mutable_strides());
      r->set_micro(Below(3));
    }
  }
  void MakePort(plan::Port* port) {
    port->set_name(Name());
    port->set_dtype(Below(4));
    List(port->mutable_shape());
  }
  void MakeProgram(plan::Program* p) {
    p->set_name(Name());
    p->set_micro_batches(Below(3));
    p->set_predicted_nanoseconds(Below(99));
    for (int n = 1 + Below(3); n > 0; --n) {
      plan::Stream* s = p->add_streams();
      s->set_device(Below(2));
      s->set_kind(static_cast<plan::StreamKind>(Below(8)));
    }
    for (int n = Below(4); n > 0; --n) {
      plan::Register* r = p->add_registers();
      r->set_name(Name());
      r->set_producer(Below(4) - 1);
      r->set_bytes(Below(99));
      r->set_quota(Below(3));
      r->set_emit_every(Below(3));
      r->set_initial_tokens(Below(2));
      r->set_variable(Name());
      List(r->mutable_slot_offsets());
      r->set_device(Below(2));
      r->set_number(Below(9));
    }
    for (int n = Below(3); n > 0; --n) {
      plan::Temporary* l = p->add_temporaries();
      l->set_actor(Below(3));
      l->set_bytes(Below(99));
      l->set_offset(Below(99));
    }
    for (int n = 1 + Below(3); n > 0; --n) {
      plan::Actor* a = p->add_actors();
      a->set_name(Name());
      a->set_stream(Below(p->streams_size()));
      a->set_firings_per_step(Below(4));
      a->set_priority(Below(3));
      for (int m = Below(4); m > 0; --m) MakeInstruction(p, a->add_script());
    }
    for (int n = Below(2); n > 0 && p->registers_size() > 0; --n) {
      plan::Ring* ring = p->add_rings();
      ring->set_name(Name());
      ring->set_slots(Below(3));
      List(ring->mutable_slot_offsets());
      for (int m = Below(3); m > 0; --m) ring->add_registers(Below(p->registers_size()));
    }
    for (int s = 0; s < p->streams_size(); ++s) {
      for (int m = Below(3); m > 0; --m) {
        plan::ScheduleEntry* entry = p->mutable_streams(s)->add_order();
        entry->set_actor(Below(p->actors_size()));
        entry->set_firing(Below(3));
        entry->set_from(Below(3));
        entry->set_to(Below(3));
      }
    }
    for (int n = Below(3); n > 0; --n) {
      plan::ReuseEdge* reuse_edge = p->add_reuse_edges();
      for (plan::Point* point : {reuse_edge->mutable_after(), reuse_edge->mutable_before()}) {
        point->set_actor(Below(p->actors_size()));
        point->set_firing(Below(3));
        point->set_instruction(Below(3));
      }
      reuse_edge->set_wraps(Below(2));
    }
    for (int n = Below(3); n > 0; --n) MakePort(p->add_feeds());
    for (int n = Below(3); n > 0; --n) MakePort(p->add_fetches());
  }

  std::mt19937 random_;
};

TEST(PlanTextTest, AnyPlanReadsBackAsItself) {
  for (int seed = 0; seed < 3000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    ExpectRoundTrip(RandomPlan(seed).Make());
  }
}

}  // namespace
}  // namespace sluice
