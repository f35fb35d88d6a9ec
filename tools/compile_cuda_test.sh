#!/bin/sh
# compile_cuda.sh against a false nvcc: what it keeps of one, and which code it refuses.
set -eu
script=$(pwd)/tools/compile_cuda.sh
cd "$TEST_TMPDIR"
# As nvcc with --keep, last, --keep-dir DIR: portable code there, ptxas' words on stderr.
cat >nvcc <<'END'
#!/bin/sh
for directory; do :; done
cp code "$directory/kernels.ptx"
echo "ptxas info    : Used 12 registers" >&2
[ ! -f broken ] || { echo "kernels.cu.cc(7): error: expected a ;" >&2; exit 2; }
END
chmod +x nvcc
entry='.visible .entry _Z7KernelAPf(
.maxntid 256, 1, 1
'
frame='	.local .align 16 .b8 	__local_depot0[32];
'
read='	ld.local.v4.u32 	{%r1, %r2, %r3, %r4}, [%rd5];
'

expect() { # expect STATUS CODE TEXT FILE: the status, and what the file (err or report) holds
  printf '%s' "$2" >code
  actual=0
  sh "$script" report ./nvcc -c 2>err || actual=$?
  [ "$actual" = "$1" ] || { echo "status $actual, expected $1"; cat err; exit 1; }
  grep -qF -- "$3" "$4" || { echo "not in $4: $3"; cat "$4"; exit 1; }
}

expect 0 "$entry	ld.global.f32 	%f1, [%rd1];
" "Used 12 registers" report
grep -qx 'entry _Z7KernelAPf' report && grep -qx 'maxntid 256, 1, 1' report || { cat report; exit 1; }
expect 0 "$entry$frame$read" "Used 12 registers" report
expect 1 "$entry$read" "KernelA(float*)" err
# A frame is one kernel's own.
expect 1 "$entry$frame$read.visible .entry _Z7KernelBPf(
$read" "KernelB(float*)" err
! grep -q KernelA err || { echo "KernelA has a frame"; exit 1; }
expect 1 "$entry	st.volatile.local.u32 	[%rd5], %r1;
" "KernelA(float*)" err
touch broken
expect 2 "$entry" "expected a ;" err
echo "passed"
