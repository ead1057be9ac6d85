#!/usr/bin/env bash
# Tests and measures the CUDA engine on a machine with an NVIDIA GPU.
#
#   gpu-check.sh [--only STAGE,…] [--quick] [--seconds N] [--out FOLDER] [--archive FILE] [--again] [--dry-run]
#
# It needs nvcc, make and a C++ compiler; with a Python that has torch and
# transformers (PYTHON, by default python3) it compares with them. It needs no
# Go and no network: the test programs come with it (make gpu-bundle).
#
# Stages, by default all of them, in this order, cheap ones first:
#   driver     the driver shows a GPU (seconds)
#   build      the library, the kernels' tests and benchmarks, for this GPU (minutes on few cores)
#   open       the library opens, and an engine computes numbers (seconds)
#   twins      every kernel against its twin, and the functions of engine.h (minutes)
#   parity     small policies: the same bits in sampler and learner, and however training is divided; the CPU engine (minutes)
#   widths     heads and widths as published policies have them: the CPU engine; transformers (minutes)
#   step       one training step has the same bytes twice, in one process and in two (seconds)
#   recipe     a small recipe, whole, and the same bytes for other shards (a minute)
#   kernels    the kernels' speed beside the device's ceilings (minutes)
#   speed      training and decoding, and the same of PyTorch (minutes)
#   sanitizer  the kernels' tests under compute-sanitizer, file by file; not with --quick unless it is named (half an hour)
# A stage is skipped, and says so, where an earlier one that it needs has failed.
# Each step of a stage writes a log and, where it measures, JSON into FOLDER (by
# default results beside this script), and what it wrote stays: a later call goes
# on with the steps and the cases that are not done yet, also on another machine
# to which FOLDER was taken. --again forgets them. --seconds ends all of it in
# time, the table at the end included, and leaves the rest to a later call.
# --archive packs FOLDER into one file after every step. --quick takes the small
# cases and ends within four minutes; --dry-run prints what would be done. At the
# end stand table.txt and summary.json, with status and time of every stage and
# step. The status is 1 if a step failed or a stage was skipped for one that
# had, and 0 if none did but time was too short for some.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
all=driver,build,open,twins,parity,widths,step,recipe,kernels,speed,sanitizer
# What a stage needs to have succeeded, or not to have been tried.
declare -A needs=(
	[build]=driver [open]=driver [twins]=driver [parity]='driver open' [widths]='driver open' [step]='driver open'
	[recipe]='driver open step' [kernels]=driver [speed]='driver open' [sanitizer]=driver
)
quick='' dry='' again='' out='' archive='' stages='' seconds=0
usage() {
	echo "usage: gpu-check.sh [--only $all] [--quick] [--seconds N] [--out FOLDER] [--archive FILE] [--again] [--dry-run]" >&2
	exit 64
}
while [[ $# -gt 0 ]]; do
	case $1 in
	--quick) quick=1 ;;
	--dry-run) dry=1 ;;
	--again) again=1 ;;
	--out) out=${2:?--out needs a folder}; shift ;;
	--archive) archive=${2:?--archive needs a file}; shift ;;
	--only | --stage) stages=$stages,${2:?--only needs the names of stages}; shift ;;
	--seconds) seconds=${2:?--seconds needs a number}; shift ;;
	*) usage ;;
	esac
	shift
done
for stage in ${stages//,/ }; do [[ ,$all, == *,"$stage",* ]] || usage; done
[[ $seconds =~ ^[0-9]+$ ]] || usage
[[ -n $stages ]] || stages=${quick:+${all%,sanitizer}}
stages=${stages:-$all}
if [[ -n $quick ]] && ((seconds == 0)); then seconds=230; fi

[[ -d $here/cuda ]] || here=$(dirname "$here") # within the repository it lies in cuda/
python=${PYTHON:-python3}
out=${out:-$here/results}
CUDA_HOME=${CUDA_HOME:-}
for nvcc in "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
	[[ -z $CUDA_HOME && -x $nvcc ]] && CUDA_HOME=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
done
export CUDA_HOME PATH="${CUDA_HOME:+$CUDA_HOME/bin:}$PATH"
build=$here/cuda/build
tests=$here/pkg/policy/cuda
runs=$here/pkg/run
given_library=${LATHE_CUDA_LIB:-} # is taken as it is, and not built
export LATHE_CUDA_LIB=${LATHE_CUDA_LIB:-$build/liblathe_engine.so}
commit=$(cat "$here/COMMIT" 2>/dev/null || git -C "$here" describe --always --dirty 2>/dev/null || echo unknown)
failed=0
worst=0 # of the stage's steps: 1 if one failed, else 125 if time was too short for one
began=$SECONDS
reserve=10 # seconds for the table and the archive

if [[ -z $dry ]]; then
	mkdir -p "$out" || exit 74
	out=$(cd "$out" && pwd)
	if [[ -n $again ]]; then
		rm -f "$out"/commit "$out"/*.log "$out"/*.json "$out"/*.jsonl "$out"/*.txt
	elif [[ -e $out/commit && $(<"$out/commit") != "$commit" ]]; then
		echo "gpu-check: $out has results of $(<"$out/commit"), and this is $commit: give another folder, or --again to forget them" >&2
		exit 64
	fi
	echo "$commit" >"$out/commit"
	touch "$out/steps.jsonl" "$out/stages.jsonl"
fi

# Seconds that are left, but for the table.
left() { echo $((seconds == 0 ? 1000000 : seconds - reserve - (SECONDS - began))); }

pack() {
	[[ -z $archive ]] || { tar -C "$(dirname "$out")" -czf "$archive.part" "$(basename "$out")" && mv "$archive.part" "$archive"; }
}

# note NAME STATUS SECONDS
note() {
	printf '{"step": "%s", "status": %d, "seconds": %d}\n' "$1" "$2" "$3" >>"$out/steps.jsonl"
	pack
}

short() { ((worst == 1)) || worst=125; }

# step NAME SECONDS COMMAND...: runs one step within a time and notes what came
# of it. A step that fails does not stop the others; one that was done is not done
# again, unless it builds or looks at this machine. The status is 125 where the time of the whole call was
# too short, which is no failure.
step() {
	local name=$1 limit=$2 start=$SECONDS status result cut=''
	shift 2
	if [[ -n $dry ]]; then
		printf '%-22s at most %4d s: %s\n' "$name" "$limit" "$*"
		return 0
	fi
	printf '%-22s ' "$name"
	if [[ $name != build* && $name != driver && $name != open ]] && grep -q "\"step\": \"$name\", \"status\": 0," "$out/steps.jsonl"; then
		echo 'is done'
		return 0
	fi
	if ((limit > $(left))); then limit=$(left) cut=1; fi
	if ((limit < 5)); then
		echo 'left out: no time is left'
		note "$name" 125 0
		short
		return 125
	fi
	echo "--- $(date -u +%FT%TZ): $*" >>"$out/$name.log"
	timeout -k 10 "$limit" "$@" >>"$out/$name.log" 2>&1 </dev/null
	status=$?
	case $status in
	0) result=ok ;;
	124 | 137)
		if [[ -n $cut ]]; then
			result="cut off after $limit s: no time is left" status=125
			short
		else
			result="too slow: more than $limit s" failed=1 worst=1 status=124
		fi
		;;
	*) result="FAILED ($status), see $out/$name.log" failed=1 worst=1 ;;
	esac
	echo "$result, $((SECONDS - start)) s"
	note "$name" "$status" "$((SECONDS - start))"
	return "$status"
}

# cases NAME SECONDS FILE COMMAND...: a step that adds a line to FILE when it
# begins a case and one when it ends it. A case that ends the program costs its
# own line alone: another run goes on with the rest.
cases() {
	local name=$1 limit=$2 file=$3 before status
	shift 3
	while true; do
		before=$(count "$file")
		step "$name" "$limit" "$@"
		status=$?
		if [[ -n $dry ]] || ((status == 0)); then return; fi
		if ((status == 125)); then
			# Not the case's fault: a later call takes it again.
			[[ -e $file ]] && tail -n 1 "$file" | grep -q '"error": *"it ended' && sed -i '$d' "$file"
			return
		fi
		(($(count "$file") > before)) || return
	done
}
count() { if [[ -e $1 ]]; then wc -l <"$1"; else echo 0; fi; }

# Importing PyTorch may take half a minute on a machine that was just started: it is done once in a call, and within its time.
peers=''
has_peers() {
	local limit
	[[ -n $dry || $peers == yes ]] && return
	[[ $peers == no ]] && return 1
	limit=$(left)
	if ((limit < 5)); then
		echo 'no comparison with PyTorch: no time is left'
		return 1
	fi
	peers=yes
	timeout -k 5 "$((limit < 120 ? limit : 120))" "$python" -c 'import torch, transformers, safetensors; assert torch.cuda.is_available()' >>"$out/python.log" 2>&1 </dev/null && return
	peers=no
	echo "no comparison with PyTorch: $python has no torch with CUDA, no transformers or no safetensors; see $out/python.log"
	return 1
}

# Where cuBLASLt may be found, which is loaded by its name and which the loader often does not know: the toolkit's, and what Python's
# packages of NVIDIA have brought.
library_path() {
	local found
	found=$("$python" -c '
import glob, os, nvidia
print(":".join(sorted({os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(os.path.join(p, "*", "lib", "libcublasLt.so.*"))})))' 2>/dev/null)
	echo "${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:+$CUDA_HOME/lib64}${found:+:$found}"
}

# Whether products by wgmma are to be measured: on the only device that has them, unless one of their tests has ended the program, as a
# wait that never ends does. It would end each of the other steps too, and take the time of all of them.
by_wgmma() {
	[[ $archs == 90 ]] || return
	[[ -n $dry || ! -e $out/twins.jsonl ]] && return
	local bad
	bad=$(awk -F '"' '{last[$4] = $0} END {for (test in last) if (test ~ /hopper|warpgroup|product/ && last[test] ~ /the program/) print test}' "$out/twins.jsonl")
	[[ -z $bad ]] && return
	echo "without wgmma, because a test ended the program:" $bad
	return 1
}

# The architecture of the GPU alone is compiled for, but for code of other ones.
architecture() {
	local capability
	capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -dc '0-9')
	echo "${capability:-90}"
}

run_go() { # TEST_PATTERN: the compiled Go tests, in the folder that they read their files from
	cd "$tests" && exec ./cuda.test -test.v -test.timeout 60m -test.run "$1"
}
export -f run_go
export tests runs
archs=$(architecture)
jobs=$(nproc 2>/dev/null || echo 2)

# compiled NAME TARGETS...: builds what is not built, once in a call.
tried_to_build=''
compiled() {
	local name=$1
	shift
	local command=(make -k -C "$here/cuda" -j"$jobs" ARCHS="$archs" "$@")
	[[ -n $dry && -n $tried_to_build ]] && return
	[[ -z $dry ]] && make -q "${command[@]:1}" >/dev/null 2>&1 && return
	if [[ -z $tried_to_build ]]; then
		step "$name" 480 "${command[@]}" && return
		tail -5 "$out/$name.log"
	fi
	echo "left out, because it is not built: $*"
	((worst == 125)) || worst=1 failed=1 # time may have been too short to build it
	return 1
}

library() { [[ -n $given_library ]] || compiled build-library build/liblathe_engine.so; }

stage_driver() {
	step driver 60 bash -c 'nvidia-smi -L && nvidia-smi -L | grep -q "^GPU "'
}

stage_build() {
	compiled build build/liblathe_engine.so build/kernels_test build/engine_test build/bench build/invariance
	tried_to_build=1
}

stage_open() {
	library && step open 60 bash -c 'run_go "^TestOpens$"'
}

stage_twins() {
	# A test that takes longer than it could ever need waits for what does not come: it ends the program, and another run takes the rest.
	compiled build-twins build/kernels_test && cases twins 240 "$out/twins.jsonl" "$build/kernels_test" -v -s 30 -r "$out/twins.jsonl"
	compiled build-engine build/engine_test && step engine 120 "$build/engine_test"
}

stage_parity() {
	compiled build-invariance build/invariance && step invariance 120 env LD_LIBRARY_PATH="$(library_path)" "$build/invariance" --json "$out/invariance.jsonl"
	library || return
	step same-bits 240 bash -c 'run_go "TestConformance|TestSharedPrefixes|TestSumsInTheEngine"'
	step parity-cpu 240 bash -c 'run_go "TestAgainstCPU|TestSamplingsAgainstCPU|TestBFloat16AgainstCPU|TestAdapterAgainstCPU|TestGreedyAgainstCPU|TestAgainstTransformers|TestPlanIsWhatEnginesTake"'
	# Products by wgmma, which an engine takes where LATHE_GEMM says so: what comes of it decides whether it is to be the rule.
	if by_wgmma; then
		LATHE_GEMM=wgmma step same-bits-wgmma 240 bash -c 'run_go "TestConformance|TestProductPaths"'
		LATHE_GEMM=wgmma step parity-cpu-wgmma 240 bash -c 'run_go "TestBFloat16AgainstCPU|TestAdapterAgainstCPU"'
	fi
}

# Heads of 64 and 128, contexts of more than a thousand tokens and, where there is
# transformers, policies as they are published.
stage_widths() {
	library || return
	step wide-heads 240 bash -c 'run_go "TestWideHeadsAgainstCPU|TestLongContexts"'
	has_peers || return
	# What transformers makes of the cases is large and stays out of the results.
	[[ -d $build/golden || -n $dry ]] || sed -i '/"step": "transformers"/d' "$out/steps.jsonl"
	step transformers 240 "$python" "$here/cuda/peers/parity.py" "$build/golden" ${quick:+--small} &&
		LATHE_PEER_GOLDEN=$build/golden step parity-transformers 240 bash -c 'run_go TestAgainstPeer'
}

# In two processes, of which each takes the step twice.
stage_step() {
	library || return
	LATHE_GPU_STEP=$out/step-one.txt step step-one 120 bash -c 'run_go "^TestStepTwice$"' &&
		LATHE_GPU_STEP=$out/step-two.txt step step-two 120 bash -c 'run_go "^TestStepTwice$"' &&
		step step-same 10 cmp "$out/step-one.txt" "$out/step-two.txt"
}

stage_recipe() {
	library &&
		step recipe 240 bash -c 'cd "$runs" && exec ./run.test -test.v -test.timeout 10m -test.run "^TestRecipeOnTheEngine$"'
}

stage_sanitizer() {
	local tool files=test_FILE.cu file
	compiled build-twins build/kernels_test || return
	if [[ -z $dry ]]; then
		if ! command -v compute-sanitizer >/dev/null; then
			echo 'left out, because there is no compute-sanitizer'
			return
		fi
		files=$("$build/kernels_test" -l | cut -d ' ' -f 1 | sort -u)
	fi
	# A step for each file of tests: what time is too short for costs no more than the file that it was at.
	for tool in memcheck racecheck initcheck; do
		for file in $files; do
			step "sanitize-$tool-$(basename "${file#test_}" .cu)" 240 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/kernels_test" -o once -f "$file"
		done
	done
}

stage_kernels() {
	compiled build-bench build/bench && step kernels 400 env LD_LIBRARY_PATH="$(library_path)" "$build/bench" ${quick:+--quick} --json "$out/kernels.json"
}

stage_speed() {
	library &&
		LATHE_GPU_SPEED=$out/lathe.jsonl LATHE_GPU_QUICK=$quick cases speed 540 "$out/lathe.jsonl" bash -c 'run_go TestSpeed'
	by_wgmma && library &&
		LATHE_GEMM=wgmma LATHE_GPU_SPEED=$out/lathe-wgmma.jsonl LATHE_GPU_QUICK=$quick cases speed-wgmma 540 "$out/lathe-wgmma.jsonl" bash -c 'run_go TestSpeed'
	has_peers &&
		cases speed-pytorch 1500 "$out/pytorch.jsonl" "$python" "$here/cuda/peers/speed.py" "$out/pytorch.jsonl" ${quick:+--quick}
}

if [[ -z $dry ]]; then
	machine=$(
		nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader 2>&1
		"$CUDA_HOME/bin/nvcc" --version 2>&1 | tail -2
		uname -rsm
		echo "commit $commit"
	)
	echo "$machine"
	[[ $(cat "$out/machine.txt" 2>/dev/null) == *"$machine"* ]] || echo "$machine" >>"$out/machine.txt"
fi
# stage_status NAME: how a stage last ended, in this call or an earlier one; nothing if it was not tried.
stage_status() { sed -n "s/.*\"stage\": \"$1\", \"status\": \([0-9]*\).*/\1/p" "$out/stages.jsonl" | tail -n 1; }

# run_stage NAME: runs a stage unless one that it needs has failed, and notes how it
# ended: 0, 1 (a step failed), 125 (time was too short) or 126 (skipped).
run_stage() {
	local stage=$1 start=$SECONDS need because=''
	if [[ -n $dry ]]; then
		echo "stage $stage"
		"stage_$stage"
		return
	fi
	echo "stage $stage"
	worst=0
	for need in ${needs[$stage]:-}; do
		case $(stage_status "$need") in
		1 | 126) because=$need && break ;;
		esac
	done
	if [[ -n $because ]]; then
		echo "skipped, because stage $because failed; after a repair: gpu-check.sh --only $because,$stage"
		worst=126 failed=1
	else
		"stage_$stage"
	fi
	printf '{"stage": "%s", "status": %d, "seconds": %d, "because": "%s"}\n' "$stage" "$worst" "$((SECONDS - start))" "$because" >>"$out/stages.jsonl"
}

for stage in ${all//,/ }; do
	if [[ ,$stages, == *,$stage,* ]]; then run_stage "$stage"; fi
done
[[ -n $dry ]] && exit 0
echo "this call took $((SECONDS - began)) s; logs and JSON are in $out${archive:+ and in $archive}"
"$python" "$here/cuda/peers/table.py" "$out" 2>"$out/table.log" || { cat "$out/table.log" "$out/steps.jsonl"; failed=1; }
pack
exit "$failed"
