package monitor

import (
	"fmt"
	"strconv"
	"strings"
)

// Devices says which GPUs are a task's, as the environment has it.
type Devices struct {
	Given  string // the words for how it was found, for example CUDA_VISIBLE_DEVICES=0,1
	All    bool   // every device that may be opened
	Tokens []Token
	Task   int // the process of the task; 0 for none
}

// Token names one device: by its index, or by a UUID or the beginning of one. For
// an instance under MIG it is that of the instance (MIG-UUID), or, as older
// drivers have it, that of the GPU with the numbers of the instances
// (MIG-GPU-UUID/GPU-INSTANCE/COMPUTE-INSTANCE).
type Token struct {
	Index           int    // -1 for a UUID
	UUID            string // GPU-… or MIG-…
	GPUInstance     int    // of the old form; -1 else
	ComputeInstance int    // of the old form; -1 else
}

// String names the device as CUDA_VISIBLE_DEVICES does.
func (t Token) String() string {
	switch {
	case t.Index >= 0:
		return strconv.Itoa(t.Index)
	case t.GPUInstance >= 0:
		return fmt.Sprintf("MIG-%s/%d/%d", t.UUID, t.GPUInstance, t.ComputeInstance)
	}
	return t.UUID
}

// mostDevices is an index that no host has: where a list of Slurm's ends at the latest.
const mostDevices = 1 << 12

// DevicesGiven reads the environment of a task: what CUDA would show it, or else
// what Slurm has given to its job. A job of Slurm that was given none has none.
func DevicesGiven(lookup func(name string) (value string, set bool)) Devices {
	if value, set := lookup("CUDA_VISIBLE_DEVICES"); set {
		return Devices{Given: "CUDA_VISIBLE_DEVICES=" + value, Tokens: cudaTokens(value)}
	}
	for _, name := range []string{"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"} {
		if value, set := lookup(name); set && value != "" {
			return Devices{Given: name + "=" + value, Tokens: slurmTokens(value)}
		}
	}
	if _, inJob := lookup("SLURM_JOB_ID"); inJob {
		return Devices{Given: "the Slurm job has no GPU"}
	}
	return Devices{Given: "no variable selects GPUs: all of them", All: true}
}

// cudaTokens reads CUDA_VISIBLE_DEVICES as CUDA does: the first entry that names no
// device ends the list.
func cudaTokens(value string) []Token {
	var tokens []Token
	for entry := range strings.SplitSeq(value, ",") {
		token, err := parseToken(strings.TrimSpace(entry))
		if err != nil {
			break
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// slurmTokens reads a list of Slurm's: 0,2 or 0-3 or UUIDs, each perhaps with a type
// in front (gpu:a100:0).
func slurmTokens(value string) []Token {
	var tokens []Token
	for entry := range strings.SplitSeq(value, ",") {
		entry = entry[strings.LastIndexByte(entry, ':')+1:]
		first, last, isRange := strings.Cut(entry, "-")
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if isRange && errFrom == nil && errTo == nil {
			for i := from; i <= min(to, mostDevices); i++ {
				tokens = append(tokens, Token{Index: i, GPUInstance: -1, ComputeInstance: -1})
			}
			continue
		}
		if token, err := parseToken(entry); err == nil {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

func parseToken(entry string) (Token, error) {
	token := Token{Index: -1, GPUInstance: -1, ComputeInstance: -1}
	switch {
	case strings.HasPrefix(entry, "MIG-GPU-"):
		parts := strings.Split(strings.TrimPrefix(entry, "MIG-"), "/")
		if len(parts) != 3 {
			return token, fmt.Errorf("%q is not of the form MIG-GPU-UUID/INSTANCE/INSTANCE", entry)
		}
		var err, errCompute error
		token.UUID = parts[0]
		token.GPUInstance, err = strconv.Atoi(parts[1])
		token.ComputeInstance, errCompute = strconv.Atoi(parts[2])
		if err != nil || errCompute != nil || token.GPUInstance < 0 || token.ComputeInstance < 0 {
			return token, fmt.Errorf("%q does not name an instance", entry)
		}
		return token, nil
	case strings.HasPrefix(entry, "GPU-") && len(entry) > len("GPU-"), strings.HasPrefix(entry, "MIG-") && len(entry) > len("MIG-"):
		token.UUID = entry
		return token, nil
	}
	index, err := strconv.Atoi(entry)
	if err != nil || index < 0 {
		return token, fmt.Errorf("%q names no device", entry)
	}
	token.Index = index
	return token, nil
}
