package recipe

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// managedFlags are the flags of sbatch that Lathe gives itself, by their long
// names, each with the way to influence it.
var managedFlags = map[string]string{
	"--account":             "set account",
	"--array":               "it follows from the run",
	"--chdir":               "it is the run's folder",
	"--constraint":          "set constraint",
	"--cpus-per-task":       "set resources.stages in the recipe",
	"--dependency":          "it follows from the run",
	"--error":               "logs belong to the run",
	"--export":              "set export",
	"--gpus":                "set gpu_flag, gpu_type and resources.stages in the recipe",
	"--gpus-per-node":       "set gpu_flag, gpu_type and resources.stages in the recipe",
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
	"--wrap":                "the script is ours",
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
func (s Site) Skips(flag string) bool { return slices.Contains(s.Skip, flag) }

var (
	siteChoices = map[string][]string{
		"executor": {"local", "slurm", "steps"},
		"gpu_flag": {"gres", "gpus", "gpus-per-node", "none"},
	}
	wordPattern     = regexp.MustCompile(`^[A-Za-z0-9_.,:|&*()\[\]+-]*$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Validate checks every value of the profile, as [Recipe.Validate] does.
func (s *Site) Validate() error { return s.validate("site " + s.Name) }

func (s *Site) validate(what string) error {
	c := &checker{}
	if !namePattern.MatchString(s.Name) {
		c.add("name", s.Name, "must be 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit")
	}
	c.choiceOf("executor", s.Executor, siteChoices["executor"])
	c.atLeast("processes", s.Processes, 0)
	c.word("partition", s.Partition)
	c.word("account", s.Account)
	c.word("qos", s.QOS)
	c.word("constraint", s.Constraint)
	c.word("reservation", s.Reservation)
	c.choiceOf("gpu_flag", s.GPUFlag, siteChoices["gpu_flag"])
	c.word("gpu_type", s.GPUType)
	if !strings.HasPrefix(s.Shell, "/") || strings.ContainsAny(s.Shell, " \t\n") {
		c.add("shell", s.Shell, "must be an absolute path without spaces, such as /bin/bash")
	}
	c.lines("setup", s.Setup)
	s.checkExport(c)
	c.atLeast("max_minutes", s.MaxMinutes, 0)
	c.atLeast("max_array_size", s.MaxArraySize, 0)
	c.atLeast("max_submit", s.MaxSubmit, 0)
	c.atLeast("throttle", s.Throttle, 0)
	c.between("signal_seconds", s.SignalSeconds, 0, 65535)
	for i, flag := range s.Skip {
		place := fmt.Sprintf("skip.%d", i)
		if _, managed := managedFlags[flag]; !managed {
			c.add(place, flag, "is not a flag that lathe gives; those are %s", strings.Join(ManagedFlags(), " "))
		} else if slices.Contains(neverSkipped, flag) {
			c.add(place, flag, "cannot be skipped: a run does not work without it")
		}
	}
	s.checkExtra(c, "extra", s.Extra)
	stages := reflect.ValueOf(s.Stages)
	for i := range stages.NumField() {
		place := "stages." + yamlName(stages.Type().Field(i))
		own := stages.Field(i).Interface().(SiteStage)
		c.word(place+".partition", own.Partition)
		c.word(place+".account", own.Account)
		c.word(place+".qos", own.QOS)
		c.word(place+".constraint", own.Constraint)
		c.word(place+".reservation", own.Reservation)
		c.word(place+".gpu_type", own.GPUType)
		c.atLeast(place+".throttle", own.Throttle, 0)
		c.lines(place+".setup", own.Setup)
		s.checkExtra(c, place+".extra", own.Extra)
	}
	return c.err(what)
}

// word checks the value of a flag.
func (c *checker) word(field, value string) {
	if !wordPattern.MatchString(value) {
		c.add(field, value, "must be one word of letters, digits and _.,:|&*()[]+-")
	}
}

func (c *checker) lines(field string, lines []string) {
	for i, line := range lines {
		place := fmt.Sprintf("%s.%d", field, i)
		switch {
		case strings.Contains(line, "\n"):
			c.add(place, line, "must be one line; give one entry for each line")
		case strings.HasPrefix(strings.TrimSpace(line), "#SBATCH"):
			c.add(place, line, "is a flag of sbatch; put it in extra")
		}
	}
}

func (s *Site) checkExport(c *checker) {
	names := make([]string, 0, len(s.Export))
	for name := range s.Export {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		place := "export." + name
		switch {
		case !variablePattern.MatchString(name):
			c.add("export", name, "is not the name of an environment variable")
		case strings.HasPrefix(name, "SLURM_"), strings.HasPrefix(name, "SBATCH_"):
			c.add(place, s.Export[name], "is Slurm's own variable")
		case strings.ContainsAny(s.Export[name], "\n\x00"):
			c.add(place, s.Export[name], "must be one line")
		}
	}
}

func (s *Site) checkExtra(c *checker, field string, extra []string) {
	for i, argument := range extra {
		place := fmt.Sprintf("%s.%d", field, i)
		if strings.Contains(argument, "\n") {
			c.add(place, argument, "must be one line; give one entry for each flag")
			continue
		}
		flag, _, _ := strings.Cut(argument, "=")
		if !strings.HasPrefix(flag, "-") {
			c.add(place, argument, "must be a flag with its value in one entry, such as --exclude=node7")
			continue
		}
		if !strings.HasPrefix(flag, "--") && len(flag) > 2 {
			flag = flag[:2] // -pgpu
		}
		if strings.ContainsAny(flag, " \t\n") {
			flag = strings.Fields(flag)[0] // "-p gpu"
			c.add(place, argument, "must have no space after the flag; write %s=VALUE", flag)
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
			c.add(place, argument, "collides with %s, which lathe gives itself: %s", flag, hint)
		}
	}
}
