#include "framework/testing/hand_plans.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"

namespace sluice {
namespace {

using absl::StrAppend;
using absl::StrCat;
using absl::Substitute;

int64_t Mod(int64_t x) { return ((x % kSymbolicPrime) + kSymbolicPrime) % kSymbolicPrime; }

std::vector<LogEntry> Sorted(std::vector<LogEntry> log) {
  std::sort(log.begin(), log.end());
  return log;
}

}  // namespace

HandPlan TensorParallel() {
  HandPlan plan{"tensor_parallel", "", {}, {}};
  plan.text = R"(
    actor feed on d0.host x 4; x = feed(2)
    actor fetch on d0.host.fetch x 4; log(y0, y1)
    reg x quota 2
  )";
  for (int d = 0; d < 2; ++d) {
    // The other half arrives in mid-script; the script stops until it has.
    StrAppend(&plan.text, Substitute(R"(
      actor shard$0 on d$0.compute x 4
        p$0 = mul(x, a$0)
        %h$0 = add(p0, p1)
        q$0 = mul(%h$0, b$0) cost 2
        y$0 = add(q0, q1)
        G$0 += mul(%h$0, y$0) cost 2
      actor update$0 on d$0.compute
        a$0 -= copy(G$0)
      reg a$0 bytes 64 tokens 1
      reg G$0 bytes 64 every 4
      reg b$0 bytes 64
    )",
                                     d));
    plan.initial[StrCat("a", d)] = 3 + d;
    plan.initial[StrCat("b", d)] = 2 + d;
  }
  plan.expect = [](int steps) {
    std::vector<LogEntry> log;
    int64_t a[2] = {3, 4};
    const int64_t b = 2 + 3;
    for (int step = 0; step < steps; ++step) {
      int64_t gradient = 0;
      for (int64_t firing = 4 * step; firing < 4 * step + 4; ++firing) {
        const int64_t h = Mod((2 + 3 * firing) * (a[0] + a[1]));
        const int64_t y = Mod(h * b);
        gradient = Mod(gradient + h * y);
        log.push_back({"fetch", firing, 0, {y, y}});
      }
      for (int64_t& weight : a) weight = Mod(weight - gradient);
    }
    return Sorted(log);
  };
  return plan;
}

HandPlan DataParallel(int layers, int64_t reduction_cost) {
  HandPlan plan{"data_parallel", "", {}, {}};
  for (int d = 0; d < 2; ++d) {
    std::string& t = plan.text;
    StrAppend(&t, "actor feed", d, " on d", d, ".host; h0_", d, " = feed(", d + 1, ")\nreg h0_", d,
              " quota 2\nactor model", d, " on d", d, ".compute\n");
    for (int l = 1; l <= layers; ++l) {
      StrAppend(&t, Substitute("  h$0_$2 = mul(h$1_$2, w$0_$2) cost 2\n", l, l - 1, d));
    }
    StrAppend(&t, Substitute("  e$0_$1 = copy(h$0_$1)\n", layers, d));
    for (int l = layers; l >= 1; --l) {
      StrAppend(&t, Substitute("  g$0_$2 = mul(h$1_$2, e$0_$2) cost 2\n"
                               "  e$1_$2 = mul(e$0_$2, w$0_$2) cost 2\n",
                               l, l - 1, d));
    }
    StrAppend(&t, "actor reduce", d, " on d", d, ".comm\n");
    for (int l = layers; l >= 1; --l) {
      StrAppend(&t,
                Substitute("  s$0_$1 = sum(g$0_$1) cost $2 collective $0\n", l, d, reduction_cost));
    }
    StrAppend(&t, "actor update", d, " on d", d, ".compute\n");
    for (int l = layers; l >= 1; --l) StrAppend(&t, Substitute("  w$0_$1 -= copy(s$0_$1)\n", l, d));
    StrAppend(&t, "actor fetch", d, " on d", d, ".host.fetch; log(h", layers, "_", d, ")\n");
    for (int l = 1; l <= layers; ++l) {
      StrAppend(&t, Substitute("reg w$0_$1 bytes 64 tokens 1\nreg g$0_$1 bytes 64\n"
                               "reg s$0_$1 bytes 64\n",
                               l, d));
      plan.initial[StrCat("w", l, "_", d)] = l + 1;
    }
  }
  plan.expect = [layers](int steps) {
    std::vector<LogEntry> log;
    std::vector<int64_t> w;
    for (int l = 1; l <= layers; ++l) w.push_back(l + 1);
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<int64_t> gradient(layers, 0);
      for (int d = 0; d < 2; ++d) {
        std::vector<int64_t> h = {d + 1 + 3 * step};
        for (int64_t weight : w) h.push_back(Mod(h.back() * weight));
        log.push_back({StrCat("fetch", d), step, 0, {h.back()}});
        int64_t error = h.back();
        for (int l = layers - 1; l >= 0; --l) {
          gradient[l] = Mod(gradient[l] + h[l] * error);
          error = Mod(error * w[l]);
        }
      }
      for (int l = 0; l < layers; ++l) w[l] = Mod(w[l] - gradient[l]);
    }
    return Sorted(log);
  };
  return plan;
}

HandPlan Pipeline(const PipelineOptions& options) {
  const int last = options.stages - 1, micro = options.micro_batches;
  const auto saved = [&](int s) { return options.saved ? options.saved(s) : options.stages - s; };
  HandPlan plan{
      StrCat(options.clip ? "clip_" : "pipeline_", options.stages, "x", micro), "", {}, {}};
  std::string& t = plan.text;
  StrAppend(&t, "actor feed on d0.host x ", micro, "; x0 = feed(1) cost 0\nreg x0 quota 2\n",
            "actor fetch on d", last, ".host x ", micro, "; log(y", last, ") cost 0\n");
  for (int s = 0; s <= last; ++s) {
    StrAppend(&t, Substitute("actor F$0 on d$0.compute x $1\n"
                             "  k$0 = copy(x$0) cost 1; y$0 = mul(k$0, w$0) cost 9\n"
                             "actor B$0 on d$0.compute x $1\n",
                             s, micro));
    if (s == last) StrAppend(&t, Substitute("  e$0 = copy(y$0) cost 0\n", s));
    StrAppend(&t, Substitute("  G$0 += mul(e$0, k$0) cost 10; d$0 = mul(e$0, w$0) cost 10\n", s));
    StrAppend(
        &t, Substitute("actor U$0 on d$0.compute\n  w$0 -= $1 cost $2\n", s,
                       options.clip ? Substitute("mul(scale, G$0)", s) : Substitute("copy(G$0)", s),
                       options.update));
    StrAppend(
        &t, Substitute("reg w$0 bytes 256 tokens 1\nreg G$0 bytes 256 every $1\n"
                       "reg k$0 bytes 64 quota $2\nreg y$0 quota $3\nreg d$0 quota 2\n"
                       "reg e$0 quota $4\n",
                       s, micro, saved(s), s < last ? 2 : std::max(2, saved(s)), s < last ? 2 : 1));
    plan.initial[StrCat("w", s)] = s + 2;
    if (s == 0) continue;
    StrAppend(&t, Substitute("actor right$0 on d$0.comm x $2; x$0 = copy(y$1) cost $3\n"
                             "actor left$0 on d$1.comm.back x $2; e$1 = copy(d$0) cost $3\n"
                             "reg x$0 quota 2\n",
                             s, s - 1, micro, options.transfer));
  }
  if (options.clip) {
    StrAppend(&t, "actor total on d0.compute; scale = clip(n0");
    for (int s = 1; s <= last; ++s) StrAppend(&t, ", n", s);
    StrAppend(&t, ") cost 0\n");
    for (int s = 0; s <= last; ++s) {
      StrAppend(&t, Substitute("actor N$0 on d$0.compute; n$0 = sq(G$0) cost 0\n", s));
    }
  }
  plan.expect = [options, last, micro](int steps) {
    std::vector<LogEntry> log;
    std::vector<int64_t> w;
    for (int s = 0; s <= last; ++s) w.push_back(s + 2);
    for (int step = 0; step < steps; ++step) {
      std::vector<int64_t> gradient(last + 1, 0);
      for (int64_t firing = step * micro; firing < (step + 1) * micro; ++firing) {
        std::vector<int64_t> k = {1 + 3 * firing};
        for (int64_t weight : w) k.push_back(Mod(k.back() * weight));
        log.push_back({"fetch", firing, 0, {k.back()}});
        int64_t error = k.back();
        for (int s = last; s >= 0; --s) {
          gradient[s] = Mod(gradient[s] + error * k[s]);
          error = Mod(error * w[s]);
        }
      }
      int64_t norm = 0;
      for (int64_t g : gradient) norm = Mod(norm + g * g);
      const int64_t scale = options.clip ? 1 + norm % 7 : 1;
      for (int s = 0; s <= last; ++s) w[s] = Mod(w[s] - scale * gradient[s]);
    }
    return Sorted(log);
  };
  return plan;
}

HandPlan ClippedStages() {
  PipelineOptions options;
  options.stages = 3;
  options.micro_batches = 4;
  options.clip = true;
  return Pipeline(options);
}

HandPlan Accumulate() {
  HandPlan plan{"accumulate",
                R"(
    actor feed on d0.host x 4; x = feed(5)
    actor model on d0.compute x 4
      y = mul(x, w)
      G += mul(x, y)      # no token at the start: the first firing of a step begins at nothing
      G += copy(y)        # the second writer, on the fourth firing, emits it
      m += copy(y)        # a running statistic: the next token every firing
      loss = mul(y, m)
    actor update on d0.compute
      w -= copy(G)
      n += copy(1)
    actor fetch on d0.host.fetch x 4; log(loss)
    reg x quota 2; reg loss quota 2; reg G bytes 64 every 4
    reg w bytes 64 tokens 1; reg m tokens 1; reg n tokens 1
  )",
                {{"w", 3}},
                {}};
  plan.expect = [](int steps) {
    std::vector<LogEntry> log;
    int64_t w = 3, m = 0;
    for (int step = 0; step < steps; ++step) {
      int64_t gradient = 0;
      for (int64_t firing = 4 * step; firing < 4 * step + 4; ++firing) {
        const int64_t x = 5 + 3 * firing, y = Mod(x * w);
        gradient = Mod(gradient + x * y + y);
        m = Mod(m + y);
        log.push_back({"fetch", firing, 0, {Mod(y * m)}});
      }
      w = Mod(w - gradient);
    }
    return Sorted(log);
  };
  return plan;
}

HandPlan TiedTable() {
  HandPlan plan{"tied_table",
                R"(
    actor feed on d0.host x 4; x = feed(1)
    actor send on d1.comm; table1 = copy(table)       # once a step
    actor embed on d0.compute x 4; h = mul(x, table)
    actor head on d1.compute x 4
      y = mul(h, table1)
      G1 += mul(h, y)
      d = mul(y, table1)
    actor unembed on d0.compute x 4; G0 += mul(x, d)
    actor back on d0.comm; R = copy(G1)
    actor update on d0.compute; table -= add(G0, R)   # when all four firings and the copy have read it
    actor fetch on d1.host x 4; log(y)
    reg x quota 3; reg h quota 2; reg d quota 2; reg R bytes 256
    reg table bytes 256 tokens 1; reg table1 bytes 256
    reg G0 bytes 256 every 4; reg G1 bytes 256 every 4
  )",
                {{"table", 2}},
                {}};
  plan.expect = [](int steps) {
    std::vector<LogEntry> log;
    int64_t table = 2;
    for (int step = 0; step < steps; ++step) {
      int64_t gradient = 0;
      for (int64_t firing = 4 * step; firing < 4 * step + 4; ++firing) {
        const int64_t x = 1 + 3 * firing, h = Mod(x * table), y = Mod(h * table);
        gradient = Mod(gradient + h * y + x * Mod(y * table));
        log.push_back({"fetch", firing, 0, {y}});
      }
      table = Mod(table - gradient);
    }
    return Sorted(log);
  };
  return plan;
}

HandPlan Programs() {
  HandPlan plan{"programs",
                R"(
    program train
    actor feed on d0.host; x = feed(credit, 7)       # the loop may be two steps ahead, no more
    actor model on d0.compute; y = mul(x, w, v); g = mul(x, y)
    actor update on d0.compute; w -= copy(g); v += copy(1)
    actor fetch on d0.host.fetch; log(y); credit = copy(0)
    reg credit quota 2 tokens 2; reg x quota 2; reg y quota 2
    reg w bytes 64 tokens 1 variable w; reg v tokens 1 variable v

    program eval
    actor feed on d0.host x 3; x = feed(9)
    actor model on d0.compute x 3; y = mul(x, w)
    actor fetch on d0.host.fetch x 3; log(y)
    reg y quota 2; reg w bytes 64 variable w

    program snapshot
    actor stage on d0.host; log(w, v)
    reg w bytes 64 variable w; reg v variable v
  )",
                {{"w", 3}, {"v", 1}},
                {}};
  return plan;
}

HandPlan GatheredWeights(int layers, int slots) {
  HandPlan plan{StrCat("gathered_weights_", slots), "", {}, {}};
  std::string& t = plan.text;
  for (int d = 0; d < 2; ++d) {
    // The last layer's weights serve its backward too; the others are gathered once more.
    const auto backward = [&](int l) { return StrCat(l < layers ? "b" : "f", l, "_", d); };
    std::vector<std::string> gathers;
    for (int l = 1; l <= layers; ++l) gathers.push_back(StrCat("f", l));
    for (int l = layers - 1; l >= 1; --l) gathers.push_back(StrCat("b", l));
    StrAppend(&t, "actor feed", d, " on d", d, ".host; h0_", d, " = feed(", d + 1, ")\nactor model",
              d, " on d", d, ".compute\n");
    for (int l = 1; l <= layers; ++l) {
      StrAppend(&t, Substitute("  h$0_$2 = mul(h$1_$2, f$0_$2) cost 3\n", l, l - 1, d));
    }
    StrAppend(&t, Substitute("  e$0_$1 = copy(h$0_$1)\n", layers, d));
    for (int l = layers; l >= 1; --l) {
      StrAppend(&t, Substitute("  g$0_$2 = mul(h$1_$2, e$0_$2) cost 3\n"
                               "  e$1_$2 = mul(e$0_$2, $3) cost 3\n",
                               l, l - 1, d, backward(l)));
    }
    StrAppend(&t, "actor gather", d, " on d", d, ".comm\n");
    for (size_t n = 0; n < gathers.size(); ++n) {
      StrAppend(&t, Substitute("  $0_$1 = sum(v$2_$1) cost 2 collective $3\n", gathers[n], d,
                               gathers[n].substr(1), n + 1));
    }
    StrAppend(&t, "actor scatter", d, " on d", d, ".comm\n");
    for (int l = layers; l >= 1; --l) {
      StrAppend(&t, Substitute("  s$0_$1 = sum(g$0_$1) cost 2 collective $2\n", l, d, 100 + l));
    }
    StrAppend(&t, "actor update", d, " on d", d, ".compute\n");
    for (int l = 1; l <= layers; ++l) StrAppend(&t, Substitute("  v$0_$1 -= copy(s$0_$1)\n", l, d));
    StrAppend(&t, Substitute("actor fetch$0 on d$0.host.fetch; log(h$1_$0)\n", d, layers));
    for (int l = 1; l <= layers; ++l) {
      StrAppend(&t, Substitute("reg v$0_$1 bytes 32 tokens 1\nreg g$0_$1 bytes 64\n"
                               "reg s$0_$1 bytes 32\n",
                               l, d));
      plan.initial[StrCat("v", l, "_", d)] = l + d;
    }
    for (const std::string& g : gathers) StrAppend(&t, "reg ", g, "_", d, " bytes 64\n");
    StrAppend(&t, "ring gathered", d, " slots ", slots, " registers");
    for (const std::string& g : gathers) StrAppend(&t, " ", g, "_", d);
    t += "\n";
  }
  plan.expect = [layers](int steps) {
    std::vector<LogEntry> log;
    std::vector<int64_t> w;  // gathered: the sum of both devices' shards
    for (int l = 1; l <= layers; ++l) w.push_back(2 * l + 1);
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<int64_t> gradient(layers, 0);
      for (int d = 0; d < 2; ++d) {
        std::vector<int64_t> h = {d + 1 + 3 * step};
        for (int64_t weight : w) h.push_back(Mod(h.back() * weight));
        log.push_back({StrCat("fetch", d), step, 0, {h.back()}});
        int64_t error = h.back();
        for (int l = layers - 1; l >= 0; --l) {
          gradient[l] = Mod(gradient[l] + h[l] * error);
          error = Mod(error * w[l]);
        }
      }
      // Each of the two shards moves by the sum.
      for (int l = 0; l < layers; ++l) w[l] = Mod(w[l] - 2 * gradient[l]);
    }
    return Sorted(log);
  };
  return plan;
}

std::vector<HandPlan> AllHandPlans() {
  PipelineOptions small, large;
  small.stages = 2;
  small.micro_batches = 4;
  return {TensorParallel(), DataParallel(3), Pipeline(small), Pipeline(large),
          Accumulate(),     TiedTable(),     ClippedStages(), GatheredWeights(3, 2)};
}

}  // namespace sluice
