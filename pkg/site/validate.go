package site

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
)

// managedFlags are the flags of sbatch that Lathe gives itself, by their long
// names, each with the way to influence it.
var managedFlags = map[string]string{
	"--account":             "set account",
	"--array":               "the run determines it",
	"--chdir":               "it is the run's folder",
	"--constraint":          "set constraint",
	"--cpus-per-task":       "set resources.stages in the recipe",
	"--dependency":          "the run determines it",
	"--error":               "logs belong to the run",
	"--export":              "set export",
	"--gpus":                "set gpu_flag, gpu_type and resources.stages in the recipe",
	"--gpus-per-node":       "set gpu_flag, gpu_type and resources.stages in the recipe",
	"--gpus-per-task":       "set gpu_flag, gpu_type and resources.stages in the recipe",
	"--gres":                "set gpu_flag, gpu_type and resources.stages in the recipe",
	"--job-name":            "status finds jobs by it",
	"--kill-on-invalid-dep": "set kill_on_invalid_dependency",
	"--mem":                 "set memory_flag and resources.stages in the recipe",
	"--mem-per-cpu":         "set memory_flag and resources.stages in the recipe",
	"--mem-per-gpu":         "set memory_flag and resources.stages in the recipe",
	"--no-requeue":          "set requeue",
	"--nodes":               "each task is one process on one node",
	"--ntasks":              "each task is one process on one node",
	"--open-mode":           "logs belong to the run",
	"--output":              "logs belong to the run",
	"--parsable":            "job ids are read from it",
	"--partition":           "set partition",
	"--qos":                 "set qos",
	"--requeue":             "set requeue",
	"--reservation":         "set reservation",
	"--signal":              "set signal_seconds",
	"--time":                "set resources.stages in the recipe",
	"--wrap":                "lathe writes the script",
}

// shortFlags are the short names of managed flags.
var shortFlags = map[string]string{
	"-A": "--account", "-a": "--array", "-D": "--chdir", "-C": "--constraint", "-c": "--cpus-per-task",
	"-d": "--dependency", "-e": "--error", "-G": "--gpus", "-J": "--job-name", "-N": "--nodes", "-n": "--ntasks",
	"-o": "--output", "-p": "--partition", "-q": "--qos", "-t": "--time",
}

// neverSkipped are the managed flags without which a run cannot work.
var neverSkipped = []string{"--array", "--dependency", "--job-name", "--parsable", "--wrap"}

// ManagedFlags lists the flags of sbatch that Lathe gives itself, sorted.
func ManagedFlags() []string {
	var flags []string
	for flag := range managedFlags {
		flags = append(flags, flag)
	}
	sort.Strings(flags)
	return flags
}

// Skips reports whether a managed flag, by its long name, is never given.
func (s Profile) Skips(flag string) bool { return slices.Contains(s.Skip, flag) }

var (
	namePattern     = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	wordPattern     = lazyregexp.New(`^[A-Za-z0-9_.,:|&*()\[\]+-]*$`)
	variablePattern = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Validate checks every value of the profile. It returns one usage error with a line for
// each problem, in the order of the fields.
func (s *Profile) Validate() error { return s.validate("site " + s.Name) }

func (s *Profile) validate(what string) error {
	c := config.NewChecker(s)
	if !namePattern().MatchString(s.Name) {
		c.Add("name", s.Name, "must be 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit")
	}
	c.Choice("executor", s.Executor)
	c.AtLeast("processes", s.Processes, 0)
	checkWord(c, "partition", s.Partition)
	checkWord(c, "account", s.Account)
	checkWord(c, "qos", s.QOS)
	checkWord(c, "constraint", s.Constraint)
	checkWord(c, "reservation", s.Reservation)
	c.Choice("gpu_flag", s.GPUFlag)
	checkWord(c, "gpu_type", s.GPUType)
	if !strings.HasPrefix(s.Shell, "/") || strings.ContainsAny(s.Shell, " \t\n") {
		c.Add("shell", s.Shell, "must be an absolute path without spaces, such as /bin/bash")
	}
	checkLines(c, "setup", s.Setup)
	s.checkExport(c)
	c.AtLeast("max_minutes", s.MaxMinutes, 0)
	c.AtLeast("max_array_size", s.MaxArraySize, 0)
	c.AtLeast("max_submit", s.MaxSubmit, 0)
	c.AtLeast("throttle", s.Throttle, 0)
	c.AtLeast("nodes", s.Nodes, 0)
	c.AtLeast("node_cpus", s.NodeCPUs, 0)
	if !(s.NodeMemoryGB >= 0) {
		c.Add("node_memory_gb", s.NodeMemoryGB, "must be 0 or more")
	}
	c.Between("signal_seconds", s.SignalSeconds, 0, 65535)
	c.Between("watchdog_seconds", s.WatchdogSeconds, 0, 30*24*60*60)
	if len(s.Notify) > 0 && strings.TrimSpace(s.Notify[0]) == "" {
		c.Add("notify.0", s.Notify[0], "must be a program, by its path or on PATH")
	}
	for i, flag := range s.Skip {
		place := fmt.Sprintf("skip.%d", i)
		if _, managed := managedFlags[flag]; !managed {
			c.Add(place, flag, "is not a flag that lathe passes; those are %s", strings.Join(ManagedFlags(), " "))
		} else if slices.Contains(neverSkipped, flag) {
			c.Add(place, flag, "cannot be skipped: a run does not work without it")
		}
	}
	s.checkExtra(c, "extra", s.Extra)
	for _, name := range config.Names(&s.Stages) {
		place := "stages." + name
		own, _ := config.Find[Stage](&s.Stages, name)
		checkWord(c, place+".partition", own.Partition)
		checkWord(c, place+".account", own.Account)
		checkWord(c, place+".qos", own.QOS)
		checkWord(c, place+".constraint", own.Constraint)
		checkWord(c, place+".reservation", own.Reservation)
		checkWord(c, place+".gpu_type", own.GPUType)
		c.AtLeast(place+".throttle", own.Throttle, 0)
		checkLines(c, place+".setup", own.Setup)
		s.checkExtra(c, place+".extra", own.Extra)
	}
	return c.Err(what)
}

// checkWord checks the value of a flag.
func checkWord(c *config.Checker, field, value string) {
	if !wordPattern().MatchString(value) {
		c.Add(field, value, "must be one word of letters, digits and _.,:|&*()[]+-")
	}
}

func checkLines(c *config.Checker, field string, lines []string) {
	for i, line := range lines {
		place := fmt.Sprintf("%s.%d", field, i)
		switch {
		case strings.Contains(line, "\n"):
			c.Add(place, line, "must be one line; give one entry for each line")
		case strings.HasPrefix(strings.TrimSpace(line), "#SBATCH"):
			c.Add(place, line, "is a flag of sbatch; put it in extra")
		}
	}
}

func (s *Profile) checkExport(c *config.Checker) {
	names := make([]string, 0, len(s.Export))
	for name := range s.Export {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		place := "export." + name
		switch {
		case !variablePattern().MatchString(name):
			c.Add("export", name, "is not the name of an environment variable")
		case strings.HasPrefix(name, "SLURM_"), strings.HasPrefix(name, "SBATCH_"):
			c.Add(place, s.Export[name], "is Slurm's own variable")
		case strings.HasPrefix(s.Export[name], "$") && !variablePattern().MatchString(s.Export[name][1:]):
			c.Add(place, s.Export[name], "is not $ and the name of an environment variable")
		case strings.ContainsAny(s.Export[name], "\n\x00"):
			c.Add(place, s.Export[name], "must be one line")
		}
	}
}

func (s *Profile) checkExtra(c *config.Checker, field string, extra []string) {
	for i, argument := range extra {
		place := fmt.Sprintf("%s.%d", field, i)
		if strings.Contains(argument, "\n") {
			c.Add(place, argument, "must be one line; give one entry for each flag")
			continue
		}
		flag, _, _ := strings.Cut(argument, "=")
		if !strings.HasPrefix(flag, "-") {
			c.Add(place, argument, "must be a flag with its value in one entry, such as --exclude=node7")
			continue
		}
		if !strings.HasPrefix(flag, "--") && len(flag) > 2 {
			flag = flag[:2] // -pgpu
		}
		if strings.ContainsAny(flag, " \t\n") {
			flag = strings.Fields(flag)[0] // "-p gpu"
			c.Add(place, argument, "must have no space after the flag; write %s=VALUE", flag)
			continue
		}
		if long, ok := shortFlags[flag]; ok {
			flag = long
		}
		if _, managed := managedFlags[flag]; !managed && strings.HasPrefix(flag, "--") {
			// sbatch takes the beginning of a long name for the name.
			for _, long := range ManagedFlags() {
				if strings.HasPrefix(long, flag) {
					flag = long
					break
				}
			}
		}
		if hint, managed := managedFlags[flag]; managed && !s.Skips(flag) {
			c.Add(place, argument, "collides with %s, which lathe passes itself: %s", flag, hint)
		}
	}
}
