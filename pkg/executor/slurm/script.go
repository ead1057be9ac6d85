package slurm

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/executor"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/site"
)

// maxScript is the largest script that slurmctld takes, in bytes.
const maxScript = 4 << 20

// GateStage is the stage of controller jobs, which advance a run.
const GateStage = "gate"

// NamePrefix is what the names of all jobs of a run begin with.
func NamePrefix(run string) string { return fmt.Sprintf("lathe-%s-", run) }

// JobName is the name of the jobs of an array. Every controller job of a run has the
// same name, so that the dependency "singleton" lets one run at a time.
func JobName(array executor.Array) string {
	if array.Stage == GateStage {
		return NamePrefix(array.Run) + array.Stage
	}
	return NamePrefix(array.Run) + array.Name()
}

// Script is the text of the job script of one chunk: submit it with sbatch
// and it does the rest. A chunk of an array whose tasks do not take a shard
// becomes a plain job.
func Script(array executor.Array, chunk Chunk, site site.Profile) ([]byte, error) {
	if err := array.Validate(); err != nil {
		return nil, err
	}
	if strings.Contains(array.LogDir, `\`) {
		return nil, exitcode.Usagef("the folder %q has a backslash in its name, which Slurm does not accept in a log path: rename it", array.LogDir)
	}
	site, err := site.Stage(array.SiteStage())
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#!%s\n", site.Shell)
	for _, flag := range flags(array, chunk, site) {
		name, value, hasValue := strings.Cut(flag, "=")
		if strings.ContainsAny(value, "\n\x00") {
			return nil, exitcode.Usagef("the value %q of %s is not possible in a job script", value, name)
		}
		if hasValue {
			flag = name + "=" + Directive(value)
		}
		fmt.Fprintf(&b, "#SBATCH %s\n", flag)
	}
	excluded := array.Exclude
	for _, flag := range site.Extra {
		if nodes, own := strings.CutPrefix(flag, "--exclude="); own {
			excluded = append([]string{nodes}, excluded...)
		}
		fmt.Fprintf(&b, "#SBATCH %s\n", flag)
	}
	if len(array.Exclude) > 0 { // the last of two such flags holds
		fmt.Fprintf(&b, "#SBATCH --exclude=%s\n", strings.Join(excluded, ","))
	}
	b.WriteString("set -euo pipefail\n\n")
	writeShard(&b, array, chunk)
	writeEnvironment(&b, array, site)
	writeSetup(&b, site)
	writeCommand(&b, array)
	if b.Len() > maxScript {
		return nil, exitcode.Bugf("the script of %s has %d bytes; Slurm's limit is %d", array.Name(), b.Len(), maxScript)
	}
	return []byte(b.String()), nil
}

// identity reports that task i of the chunk does shard i, so that Slurm can
// name the log by its own index.
func (c Chunk) identity() bool {
	offset, dense := c.offset()
	return dense && offset == 0
}

// flags lists the flags of sbatch for a chunk, those aside that the site
// skips or adds.
func flags(array executor.Array, chunk Chunk, site site.Profile) []string {
	var all []string
	give := func(flag, value string) {
		if value != "" && !site.Skips(flag) {
			all = append(all, flag+"="+value)
		}
	}
	give("--job-name", JobName(array))
	all = append(all, "--comment=lathe "+filepath.Dir(array.LogDir))
	if !array.NoShard {
		indices := fmt.Sprintf("0-%d", len(chunk.Shards)-1)
		if chunk.Throttle > 0 {
			indices += "%" + strconv.Itoa(chunk.Throttle)
		}
		give("--array", indices)
	}
	give("--partition", site.Partition)
	give("--account", site.Account)
	give("--qos", site.QOS)
	give("--constraint", site.Constraint)
	give("--reservation", site.Reservation)
	give("--nodes", "1")
	give("--ntasks", "1")
	give("--cpus-per-task", strconv.Itoa(array.CPUs))
	for _, flag := range []string{executor.MemoryFlag(site, array.MemoryGB), executor.GPUFlag(site, array.GPUs)} {
		if flag != "" {
			all = append(all, flag)
		}
	}
	minutes := limitMinutes(array.Minutes, site)
	if minutes > 0 {
		give("--time", strconv.Itoa(minutes))
	}
	if seconds := signalSeconds(minutes, site.SignalSeconds); seconds > 0 {
		// To the shell alone, which has become the task by then. Not SIGUSR1,
		// which NCCL takes for itself.
		give("--signal", fmt.Sprintf("B:USR2@%d", seconds))
	}
	give("--chdir", filepath.Dir(array.LogDir))
	give("--output", strings.ReplaceAll(array.LogDir, "%", "%%")+"/"+outputName(array, chunk))
	give("--open-mode", "append")
	give("--export", "ALL")
	if requeue := "--requeue"; site.Requeue && !site.Skips(requeue) {
		all = append(all, requeue)
	} else if noRequeue := "--no-requeue"; !site.Requeue && !site.Skips(noRequeue) {
		all = append(all, noRequeue)
	}
	kill := "no"
	if site.KillOnInvalidDependency {
		kill = "yes"
	}
	give("--kill-on-invalid-dep", kill)
	return all
}

// outputName is the file that Slurm opens for a task. Where Slurm's index is
// the shard it is the log itself; else the task opens its log, and the file
// that the whole chunk shares holds what Slurm says about it.
func outputName(array executor.Array, chunk Chunk) string {
	switch {
	case array.NoShard:
		return filepath.Base(array.Log(chunk.Shards[0]))
	case chunk.identity():
		return fmt.Sprintf("%s-%%5a.%d.log", array.Name(), array.Attempt)
	}
	return fmt.Sprintf("%s.%d.slurm-%%A.log", array.Name(), array.Attempt)
}

// limitMinutes is the time limit of a task that asks for some minutes.
func limitMinutes(asked int, site site.Profile) int {
	if site.MaxMinutes > 0 {
		return min(asked, site.MaxMinutes)
	}
	return asked
}

// ToldToStop is the shortest time after which a task that asks for some minutes
// may be told to stop because its time limit comes near; 0 when it never is.
func ToldToStop(asked int, site site.Profile) time.Duration {
	minutes := limitMinutes(asked, site)
	notice := signalSeconds(minutes, site.SignalSeconds)
	if minutes == 0 || notice == 0 {
		return 0
	}
	// Slurm may send the signal up to a minute early (sbatch(1), --signal).
	return time.Duration(minutes)*time.Minute - time.Duration(notice)*time.Second - time.Minute
}

// signalSeconds is how long before the time limit a task is told to stop.
// The signal may come up to a minute early, so a short limit gets a shorter
// notice, and none when the task would be left with less than a third of its
// time: SIGTERM at the limit and KillWait after it have to do.
func signalSeconds(minutes, wanted int) int {
	if minutes == 0 {
		return wanted
	}
	limit := minutes * 60
	notice := min(wanted, limit/4)
	if limit-notice-60 < limit/3 {
		return 0
	}
	return notice
}

// writeShard writes how a task finds its shard, and its log where Slurm could
// not name it.
func writeShard(b *strings.Builder, array executor.Array, chunk Chunk) {
	if array.NoShard {
		return
	}
	if offset, dense := chunk.offset(); dense {
		fmt.Fprintf(b, "shard=$((%d + SLURM_ARRAY_TASK_ID))\n", offset)
	} else {
		b.WriteString("shards=(")
		for i, shard := range chunk.Shards {
			switch {
			case i > 0 && i%20 == 0:
				b.WriteString("\n\t")
			case i > 0:
				b.WriteByte(' ')
			}
			b.WriteString(strconv.Itoa(shard))
		}
		b.WriteString(")\nshard=${shards[SLURM_ARRAY_TASK_ID]}\n")
	}
	if !chunk.identity() {
		fmt.Fprintf(b, "printf -v log '%%s-%%05d.%d.log' %s \"$shard\"\nexec >>\"$log\" 2>&1\n",
			array.Attempt, Word(filepath.Join(array.LogDir, array.Name())))
	}
}

// offset is the first shard of a chunk whose shards follow one another.
func (c Chunk) offset() (offset int, dense bool) {
	for i, shard := range c.Shards {
		if shard != c.Shards[0]+i {
			return 0, false
		}
	}
	return c.Shards[0], true
}

// writeEnvironment sets the task's variables in the script itself: a variable
// listed in --export loses to one of the same name in the submitting shell.
func writeEnvironment(b *strings.Builder, array executor.Array, site site.Profile) {
	variables := map[string]string{}
	for _, from := range []map[string]string{site.Export, array.Env, {"LATHE_ATTEMPT": strconv.Itoa(array.Attempt)}} {
		maps.Copy(variables, from)
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if from, isName := strings.CutPrefix(variables[name], "$"); isName {
			fmt.Fprintf(b, "export %s=\"${%s:?the site profile sets %s from it, but it was not set at submission}\"\n", name, from, name)
			continue
		}
		fmt.Fprintf(b, "export %s=%s\n", name, Word(variables[name]))
	}
}

// writeSetup writes the site's own lines. Module systems use unset variables,
// so those are allowed meanwhile.
func writeSetup(b *strings.Builder, site site.Profile) {
	if len(site.Setup) == 0 {
		return
	}
	b.WriteString("\nset +u\ntrap 'echo \"the setup line failed: $BASH_COMMAND\" >&2' ERR\n")
	for _, line := range site.Setup {
		b.WriteString(line + "\n")
	}
	b.WriteString("trap - ERR\nset -u\n")
}

// writeCommand ends the script by becoming the task, so that signals to the
// batch shell reach it and no step has to be created.
func writeCommand(b *strings.Builder, array executor.Array) {
	words := slices.Clone(array.Command)
	for i := range words {
		words[i] = Word(words[i])
	}
	if !array.NoShard {
		words = append(words, `--shard "$shard"`)
	}
	fmt.Fprintf(b, "\nexec %s\n", strings.Join(words, " "))
}

// Word makes text one word of the shell.
func Word(text string) string {
	if text != "" && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Directive makes text one argument of an #SBATCH line, which has rules
// of its own: double quotes group, and a backslash takes what follows as it is.
func Directive(text string) string {
	if Word(text) == text {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
