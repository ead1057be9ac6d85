package efficiency

import (
	"fmt"
	"math"
	"strings"

	"github.com/lathe-rl/lathe/pkg/phase"
)

// The thresholds of jobstats' notes, in percent, and the time below which it says
// nothing: ten of its samples of 30 seconds (jobstats, config.py).
const (
	gpuRed, gpuBlack   = 15, 25
	cpuRed, cpuBlack   = 65, 80
	timeRed, timeBlack = 10, 60
	leastMemoryPercent = 70
	leastSeconds       = 300
	memorySafety       = 1.2
	mostCoresPerGPU    = 12
	largeMemoryBytes   = 50 << 30 // of a GPU: below it, memory is not worth a remark

	// Ours: a client of NFS that listed a folder lately sees a new file after acdirmax,
	// 60 seconds where nobody sets it (nfs(5)); one that asks its server needs no second.
	lateSeconds, lateShare = 1, 0.05
)

// notes are the remarks that jobstats has, on the run as a whole. Those that say
// which cluster of Princeton's a job was on have no meaning elsewhere.
func notes(r *Report) []Note {
	notes := []Note{}
	say := func(urgent bool, format string, args ...any) {
		notes = append(notes, Note{Text: fmt.Sprintf(format, args...), Urgent: urgent})
	}
	long := r.WallClockSeconds > leastSeconds
	unused, known := 0, 0
	for _, g := range r.GPUs {
		if g.GPUShare != nil {
			known++
			if *g.GPUShare == 0 {
				unused++
			}
		}
	}
	switch n := len(r.GPUs); {
	case unused > 0 && long && n == 1:
		say(true, "This run did not use the GPU. Is the policy on it? Ask for none in the recipe's resources, or build the CUDA engine.")
	case unused > 0 && long:
		say(true, "This run did not use %d of the %d GPUs that it was given.", unused, n)
	}
	if u := r.Total.GPUShare; u != nil && unused == 0 && known > 0 {
		percent := math.Round(100 * *u)
		switch {
		case 100**u <= gpuRed:
			say(true, "The overall GPU utilization of this run is only %.0f%%. %s", percent, idleCause(r))
		case 100**u < gpuBlack && long:
			say(false, "The overall GPU utilization of this run is %.0f%%, which is somewhat low. %s", percent, idleCause(r))
		}
	}
	if u := r.Total.CPUShare; u != nil && len(r.GPUs) == 0 && long && *u > 0 {
		percent := 100 * *u
		cores := r.Total.CoreSeconds / r.Total.Seconds
		switch {
		case percent < cpuRed:
			say(true, "The overall CPU utilization of this run is %.0f%%. This value is low compared to the target range of 90%% and above. %s", percent, idleCause(r))
		case percent <= cpuBlack:
			say(false, "The overall CPU utilization of this run is %.0f%%. This value is somewhat low compared to the target range of 90%% and above. %s", percent, idleCause(r))
		}
		if alone := 100 / cores; cores > 1.5 && percent/alone > 0.85 && percent/alone < 1.01 {
			say(false, "The CPU utilization is about one by the number of cores of a task: its tasks may use one core only.")
		}
	}
	usedCPU := r.Total.CPUShare == nil || *r.Total.CPUShare > 0
	outOfMemory := false
	for _, l := range r.Lost {
		switch {
		case l.Cause == dispositionMemory && usedCPU:
			outOfMemory = true
			say(true, "Attempts that needed more memory than they were given: %d. A next run may ask for more: resources.stages.STAGE.memory_gb.", l.Attempts)
		case l.Cause == dispositionTimeout && usedCPU && unused == 0:
			say(true, "Attempts that exceeded their time limit: %d. A next run may ask for more: resources.stages.STAGE.minutes.", l.Attempts)
		case l.Cause == dispositionKilled:
			say(true, "Attempts that ended without a message: %d (SIGKILL, lack of memory, or a node failure). lathe logs prints what Slurm has about them.", l.Attempts)
		}
	}
	if r.Unasked != "" && len(r.Lost) > 0 {
		say(false, "Slurm was not asked how attempts ended, and may know more: %s.", r.Unasked)
	}
	spreadNote(r, say)
	if unused == 0 {
		coresNote(r, say)
	}
	memoryNote(r, long && unused == 0 && !outOfMemory, say)
	for _, s := range r.Stages {
		if s.LimitSeconds <= 0 || s.LongestSeconds <= 3*leastSeconds || unused > 0 {
			continue
		}
		if percent := math.Round(100 * s.LongestSeconds / s.LimitSeconds); percent < timeBlack {
			say(percent <= timeRed, "The tasks of %s needed at most %.0f%% of their time limit of %s. A shorter one is scheduled earlier: resources.stages.%s.minutes.",
				s.Stage, percent, humanSeconds(s.LimitSeconds), s.Stage)
		}
	}
	for _, p := range r.Phases {
		if p.Phase == phase.Wait.String() && p.LongestSeconds >= lateSeconds {
			say(p.Share >= lateShare, "Files that one node had sealed were seen late by others: tasks waited %s for them in all (%.1f%% of their time), %s at most (%s). "+
				"The file system keeps old listings of folders; mount it with a shorter acdirmax, or lookupcache=positive.",
				humanSeconds(p.Seconds), 100*p.Share, humanSeconds(p.LongestSeconds), p.LongestTask)
		}
	}
	if r.Shared {
		say(false, "Some GPUs were seen by several tasks at once: their seconds and joules count for each of them.")
	}
	if n := len(r.Faults); n > 0 {
		say(false, "Some numbers could not be read: %s.", r.Faults[0].Text)
	}
	return notes
}

// idleCause names the phases in which most of the time went by with little use.
func idleCause(r *Report) string {
	var idle []string
	for _, p := range r.Phases {
		used := p.GPUShare
		if len(r.GPUs) == 0 {
			used = p.CPUShare
		}
		if p.Share >= 0.1 && used != nil && *used < gpuBlack/100.0 && len(idle) < 3 {
			idle = append(idle, fmt.Sprintf("%s (%.0f%% of the time)", p.Phase, 100*p.Share))
		}
	}
	if len(idle) == 0 {
		return "The phases below say when."
	}
	return "Little was used during " + strings.Join(idle, ", ") + "."
}

// spreadNote remarks on jobs whose GPUs would have had room on fewer nodes. A node is
// known to have as many GPUs as the run has seen on one.
func spreadNote(r *Report, say func(urgent bool, format string, args ...any)) {
	perNode := map[string]int{}
	for _, g := range r.GPUs {
		perNode[g.Host] = max(perNode[g.Host]+1, g.Index+1)
	}
	most := 1
	for _, n := range perNode {
		most = max(most, n)
	}
	for _, job := range jobsOf(r.Each) {
		gpus := 0
		for _, a := range job {
			gpus += len(a.GPUs)
		}
		if needed := (gpus + most - 1) / most; gpus > 0 && needed < len(job) {
			say(false, "%s used %d GPUs from %d nodes, and nodes have %d GPUs or more. Use all GPUs of a node before those of another.", job[0].Task, gpus, len(job), most)
			return
		}
	}
}

// coresNote remarks on tasks that hold so many cores that a node's other GPUs may be
// left without.
func coresNote(r *Report, say func(urgent bool, format string, args ...any)) {
	var most float64
	stage := ""
	for _, a := range r.Each {
		if n := len(a.GPUs); n > 0 && a.Cores/float64(n) > most {
			most, stage = a.Cores/float64(n), a.Stage
		}
	}
	if most > mostCoresPerGPU {
		say(false, "The tasks of %s held %.0f cores for each GPU. Up to %d leave some to the node's other GPUs: resources.stages.%s.cpus.", stage, most, mostCoresPerGPU, stage)
	}
}

// memoryNote suggests less memory, a fifth above what was used.
func memoryNote(r *Report, worth bool, say func(urgent bool, format string, args ...any)) {
	var used, given, cores float64
	bounded := false
	gpus := 0
	for _, a := range r.Each {
		if a.MemoryOfHost {
			continue
		}
		bounded = true
		if a.MemoryGivenBytes > given {
			given, cores, gpus = a.MemoryGivenBytes, a.Cores, len(a.GPUs)
		}
		used = max(used, a.MemoryMaxBytes)
	}
	if !worth || !bounded || used <= 0 || 100*used/given >= leastMemoryPercent || gpus > 0 && given/float64(gpus) < largeMemoryBytes {
		return
	}
	say(false, "The tasks used at most %.0f%% of the %s of memory that they were given. For a next run, %d GiB a task would do (%s for each of %.0f cores).",
		100*used/given, humanBytes(given), suggestedGiB(used), humanBytes(memorySafety*used/max(1, cores)), max(1, cores))
}

// suggestedGiB is jobstats' suggestion: a fifth above what was used, in round
// numbers that are no less.
func suggestedGiB(usedBytes float64) int {
	safe := int(math.Ceil(memorySafety * usedBytes / (1 << 30)))
	up := func(step int) int { return (safe + step - 1) / step * step }
	switch {
	case safe > 1000:
		return up(100)
	case safe > 100:
		return up(10)
	case safe > 30:
		return up(5)
	}
	return max(1, safe)
}

// humanBytes is a size as jobstats writes it.
func humanBytes(bytes float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; bytes >= 1024 && i < len(units)-1; i++ {
		bytes /= 1024
	}
	return fmt.Sprintf("%.1f%s", bytes, units[i])
}

// humanSeconds is a time as Slurm writes it: D-HH:MM:SS.
func humanSeconds(seconds float64) string {
	s := int(math.Round(seconds))
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, text)
	}
	return text
}
