// Package site is the typed form of the YAML file that says how runs are executed
// at one place: the executor, and what its flags and job scripts hold.
package site

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

//go:embed site.go
var source string

var _ = config.Docs[Profile](source)

// Describe lists every field of a profile in the order of the file, with its
// default and its meaning.
func Describe() []config.Field {
	site := Default()
	return config.Describe(&site, "")
}

// Profile says how a run is executed at one place: nothing in it changes a
// result. One file serves every recipe that is run there.
type Profile struct {
	Name        string `yaml:"name"`        // by default the file's name
	Description string `yaml:"description"` // one line for people

	Executor  string `yaml:"executor" choices:"local,slurm,steps"` // local: processes on this machine; slurm: arrays; steps: srun inside one allocation
	Processes int    `yaml:"processes"`                            // local and steps: processes at once; 0: as many as the cores allow

	Partition   string `yaml:"partition"`   // empty leaves it to the cluster, here and below
	Account     string `yaml:"account"`     // what --account names
	QOS         string `yaml:"qos"`         // what --qos names
	Constraint  string `yaml:"constraint"`  // node features, for example "h100|a100"
	Reservation string `yaml:"reservation"` // what --reservation names

	GPUFlag    string `yaml:"gpu_flag" choices:"gres,gpus,gpus-per-node,gpus-per-task,none"` // how GPUs are asked for: gres, gpus, gpus-per-node, gpus-per-task or none
	GPUType    string `yaml:"gpu_type"`                                                      // as in --gres=gpu:TYPE:1; empty for any
	MemoryFlag bool   `yaml:"memory_flag"`                                                   // give --mem; some sites reject it

	Shell  string            `yaml:"shell"`  // interpreter of the job scripts, absolute
	Setup  []string          `yaml:"setup"`  // lines of the job script before the binary, for example "module load cuda"
	Export map[string]string `yaml:"export"` // environment variables of every task, whose values stand in job scripts; $NAME takes the value from the environment of whoever submits, so that it stands nowhere

	Monitor string `yaml:"monitor" choices:"gpus,all,none"` // which tasks have a lathe-monitor beside them, whose samples lathe gpu-report reads: those that were given a GPU, all, or none

	Binaries string `yaml:"binaries"` // folder of the lathe binaries as the nodes see it; empty: that of the running lathe

	MaxMinutes   int `yaml:"max_minutes"`    // longest time limit that is asked for; 0 for no bound
	MaxArraySize int `yaml:"max_array_size"` // MaxArraySize of slurm.conf: array indices stay below it; 0 asks scontrol
	MaxSubmit    int `yaml:"max_submit"`     // jobs of the user in the queue at once; 0 asks sacctmgr
	Throttle     int `yaml:"throttle"`       // tasks of one array that run at once; 0 for no bound

	// What the site has, for plans (lathe run --dry-run); 0 where it is not known.
	Nodes        int     `yaml:"nodes"`          // nodes without GPUs that a run may use at once; where they differ, as many of the largest as make up their cores
	NodeCPUs     int     `yaml:"node_cpus"`      // cores of the largest node: no task may ask for more
	NodeMemoryGB float64 `yaml:"node_memory_gb"` // GiB of the largest node, as Slurm counts them: no task may ask for more
	GPUs         int     `yaml:"gpus"`           // GPUs that a run may use at once
	GPUMemoryGB  float64 `yaml:"gpu_memory_gb"`  // GiB that are free on one before anything is opened

	KillOnInvalidDependency bool `yaml:"kill_on_invalid_dependency"` // --kill-on-invalid-dep=yes rather than no
	SignalSeconds           int  `yaml:"signal_seconds"`             // seconds before the time limit at which a task is told to stop
	Requeue                 bool `yaml:"requeue"`                    // let Slurm requeue preempted tasks
	WatchdogSeconds         int  `yaml:"watchdog_seconds"`           // seconds after which a controller job looks at the run although no task has ended: Slurm may leave one in the queue for ever; 0: none does

	Notify []string `yaml:"notify"` // program and arguments that are run when a run is done, has failed, or a controller job cannot continue it; LATHE_EVENT (done, failed or stuck), LATHE_EXIT, LATHE_RUN, LATHE_REPORT and LATHE_MESSAGE are in its environment

	Skip  []string `yaml:"skip"`  // managed flags that are never given, for example --export
	Extra []string `yaml:"extra"` // flags that are given as they stand; a managed flag only if it is in skip

	Stages Stages `yaml:"stages"`
}

// Stages holds what differs from the site for single stages, controller jobs
// among them.
type Stages struct {
	Warm     Stage `yaml:"warm"`
	Rollout  Stage `yaml:"rollout"`
	Score    Stage `yaml:"score"`
	Buffer   Stage `yaml:"buffer"`
	Learn    Stage `yaml:"learn"`
	Gradient Stage `yaml:"gradient"`
	Evaluate Stage `yaml:"evaluate"`
	Gate     Stage `yaml:"gate"`
}

// Stage replaces the site's setting wherever it is not empty. Setup and
// extra are added to the site's.
type Stage struct {
	Partition   string   `yaml:"partition"`   // replaces the site's
	Account     string   `yaml:"account"`     // replaces the site's
	QOS         string   `yaml:"qos"`         // replaces the site's
	Constraint  string   `yaml:"constraint"`  // replaces the site's
	Reservation string   `yaml:"reservation"` // replaces the site's
	GPUType     string   `yaml:"gpu_type"`    // replaces the site's
	Throttle    int      `yaml:"throttle"`    // replaces the site's unless 0
	Setup       []string `yaml:"setup"`       // lines after the site's
	Extra       []string `yaml:"extra"`       // flags after the site's
}

// Which tasks have a monitor beside them.
const (
	MonitorGPUs = "gpus" // those that were given a GPU
	MonitorAll  = "all"
	MonitorNone = "none"
)

// Default is this machine, with the values that a Slurm site starts from.
func Default() Profile {
	return Profile{
		Name: "local", Executor: "local", GPUFlag: "gres", MemoryFlag: true,
		Monitor: MonitorGPUs, Shell: "/bin/bash", SignalSeconds: 180, Requeue: true, WatchdogSeconds: 1800,
	}
}

// builtin gives the profiles that need no file: local, and generic, a
// Slurm cluster of which nothing is known.
func builtin(name string) (site Profile, ok bool) {
	site = Default()
	if name == "generic" {
		site.Name, site.Executor = name, "slurm"
	}
	return site, name == site.Name
}

// Resolved is a site profile with every default written out.
type Resolved struct {
	Site   Profile
	Path   string // of the file; empty for the built-in site
	YAML   []byte
	SHA256 string // of YAML, in hexadecimal
}

// Folders lists the folders of site profiles, separated like those of
// PATH, in the environment.
const Folders = "LATHE_SITES"

// Load reads a site profile. What has a slash or ends in .yaml is a path;
// any other name is looked up as NAME.yaml in the folders of LATHE_SITES, then
// in jobs/sites below the working folder. The profiles "local" and "generic"
// are built in where there is no such file. Settings are like a recipe's; a
// profile has no base.
func Load(nameOrPath string, settings ...string) (*Resolved, error) {
	doc, err := find(nameOrPath)
	if err != nil {
		return nil, err
	}
	what, path := "site "+nameOrPath, ""
	site, _ := builtin(nameOrPath)
	if doc != nil {
		what, path, site = doc.Name(), doc.Name(), Default()
		site.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if err := doc.Fill(&site, config.Options{}); err != nil {
			return nil, err
		}
	}
	if err := config.Apply(&site, settings, config.Options{}); err != nil {
		return nil, err
	}
	if err := site.validate(what); err != nil {
		return nil, err
	}
	text := config.Write(&site)
	sum := sha256.Sum256(text)
	return &Resolved{Site: site, Path: path, YAML: text, SHA256: hex.EncodeToString(sum[:])}, nil
}

// find reads the file of a profile. It is nil for a built-in one.
func find(nameOrPath string) (*config.Document, error) {
	if strings.ContainsRune(nameOrPath, filepath.Separator) || filepath.Ext(nameOrPath) == ".yaml" {
		doc, err := config.Read(nameOrPath)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, exitcode.Usagef("site profile %q does not exist", nameOrPath)
		}
		return doc, err
	}
	var tried []string
	for _, folder := range append(filepath.SplitList(os.Getenv(Folders)), filepath.Join("jobs", "sites")) {
		path := filepath.Join(folder, nameOrPath+".yaml")
		doc, err := config.Read(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return doc, err
		}
		tried = append(tried, path)
	}
	if _, ok := builtin(nameOrPath); ok {
		return nil, nil
	}
	return nil, exitcode.Usagef("site profile %q not found: looked for %s", nameOrPath, strings.Join(tried, ", "))
}

// Stage is the site as one stage sees it, its own settings folded in. The
// names are those of [Stages] in YAML; an unknown one is a bug.
func (s Profile) Stage(stage string) (Profile, error) {
	own, ok := config.Find[Stage](&s.Stages, stage)
	if !ok {
		return Profile{}, exitcode.Bugf("site %q: unknown stage %q", s.Name, stage)
	}
	for _, field := range []struct {
		to   *string
		from string
	}{
		{&s.Partition, own.Partition},
		{&s.Account, own.Account},
		{&s.QOS, own.QOS},
		{&s.Constraint, own.Constraint},
		{&s.Reservation, own.Reservation},
		{&s.GPUType, own.GPUType},
	} {
		if field.from != "" {
			*field.to = field.from
		}
	}
	if own.Throttle != 0 {
		s.Throttle = own.Throttle
	}
	s.Setup = append(append([]string(nil), s.Setup...), own.Setup...)
	s.Extra = append(append([]string(nil), s.Extra...), own.Extra...)
	return s, nil
}
