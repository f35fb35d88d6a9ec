/* The protocol of actors as a Spin model: three actors, two registers with quotas, req and ack that
   are sent in mid-script, and a state that is updated in place.

     feed   writes register x (quota Q), N times
     model  a script of three instructions, a firing a token: 0 reads x and the state w, writes y
            (quota Q); 1 reads x for the last time: its ack leaves here, not at the script's end;
            2 works on by itself
     update after each firing of model changes w in place, for which it needs the ack of model, w's
            other reader, and then reads y; its result is w's next token

   Channels keep no order among each other: each actor takes whatever message comes, at any time.
   Asserted: nobody reads a slot that is being written or holds another token; nobody overwrites
   what is still to be read; pieces arrive in order, each once; never more messages than slots. At
   the end every token is back where it began (the end state) and all N pieces are through (done).

     spin -a docs/actor.pml && gcc -O2 -DNOCLAIM -o pan pan.c && ./pan      for deadlocks, assertions
     spin -a docs/actor.pml && gcc -O2 -o pan pan.c && ./pan -a -N done      for progress
   must find no error; with each of spin -DBUG=1..4 they must find one:
     1  model acks x before it reads it      3  a quota too many: feed believes in Q+1 slots
     2  feed loses one req                   4  update does not wait for the ack of w             */
#ifndef Q
#define Q 2
#endif
#ifndef N
#define N 5
#endif
#ifndef BUG
#define BUG 0
#endif
#if BUG == 3
#define BELIEVED (Q + 1)
#else
#define BELIEVED Q
#endif

#define DEPTH 4            /* room for messages; the protocol needs no more than Q */
chan req_x = [DEPTH] of { byte };     /* token */
chan ack_x = [DEPTH] of { byte };
chan req_y = [DEPTH] of { byte };
chan ack_y = [DEPTH] of { byte };
chan req_w = [DEPTH] of { byte };     /* update -> model: w's next token */
chan ack_w = [DEPTH] of { byte };     /* model -> update */

byte x[Q], y[Q], w;                   /* the token that a slot holds */
bool writing_x[Q], writing_y[Q], writing_w;
byte unread_x[Q], unread_y[Q], unread_w = 1;
byte through;                         /* pieces that update has taken */

/* A write takes two steps, so that others may run in between. */
#define BEGIN_WRITE(r, s) atomic { assert(unread_##r[s] == 0 && !writing_##r[s]); writing_##r[s] = true }
#define END_WRITE(r, s, t) atomic { r[s] = t; writing_##r[s] = false; unread_##r[s] = 1 }
#define READ(r, s, t) atomic { assert(!writing_##r[s] && r[s] == t) }

proctype Feed() {
  byte fire = 0, acks = 0, token;
end:
  do
  :: ack_x ? token -> acks++; assert(acks <= fire)
  :: fire < N && (fire < BELIEVED || acks > fire - BELIEVED) ->
       BEGIN_WRITE(x, fire % Q);
       END_WRITE(x, fire % Q, fire);
#if BUG == 2
       if :: fire == 1 -> skip :: else -> req_x ! fire fi;
#else
       req_x ! fire;
#endif
       fire++
  od
}

proctype Model() {
  byte fire = 0, cursor = 0, got_x = 0, got_w = 1, acks = 0, token;
end:
  do
  :: req_x ? token -> assert(token == got_x); got_x++
  :: req_w ? token -> assert(token == got_w); got_w++
  :: ack_y ? token -> acks++
  :: fire < N && cursor == 0 && got_x > fire && got_w > fire && (fire < Q || acks > fire - Q) ->
#if BUG == 1
       unread_x[fire % Q] = 0; ack_x ! fire;
#endif
       READ(x, fire % Q, fire);
       atomic { assert(!writing_w && w == fire) };
       BEGIN_WRITE(y, fire % Q);
       END_WRITE(y, fire % Q, fire);
       atomic { unread_w = 0; ack_w ! fire };
       req_y ! fire;
       cursor = 1
  :: cursor == 1 ->
       READ(x, fire % Q, fire);
#if BUG != 1
       atomic { unread_x[fire % Q] = 0; ack_x ! fire };
#endif
       cursor = 2
  :: cursor == 2 -> fire++; cursor = 0
  od
}

proctype Update() {
  byte fire = 0, cursor = 0, got_y = 0, acks = 0, token;
end:
  do
  :: req_y ? token -> assert(token == got_y); got_y++
  :: ack_w ? token -> acks++
#if BUG == 4
  :: fire < N && cursor == 0 ->
#else
  :: fire < N && cursor == 0 && acks > fire ->
#endif
       assert(unread_w == 0 && !writing_w); writing_w = true;
       atomic { w = fire + 1; writing_w = false; unread_w = 1 };
       cursor = 1
  :: cursor == 1 && got_y > fire ->
       READ(y, fire % Q, fire);
       atomic { unread_y[fire % Q] = 0; ack_y ! fire };
       req_w ! (fire + 1);
       through++;
       fire++; cursor = 0
  od
}

init { atomic { run Feed(); run Model(); run Update() } }

ltl done { <> (through == N) }
