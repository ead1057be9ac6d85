package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Site says how a run is carried out at one place: nothing in it changes a
// result. One file serves every recipe that is run there.
type Site struct {
	Name        string `yaml:"name"`        // by default the file's name
	Description string `yaml:"description"` // one line for people

	Executor  string `yaml:"executor"`  // local: processes on this machine; slurm: arrays; steps: srun inside one allocation
	Processes int    `yaml:"processes"` // local and steps: processes at once; 0: as many as the cores allow

	Partition   string `yaml:"partition"`   // empty leaves it to the cluster, here and below
	Account     string `yaml:"account"`     // what --account names
	QOS         string `yaml:"qos"`         // what --qos names
	Constraint  string `yaml:"constraint"`  // node features, for example "h100|a100"
	Reservation string `yaml:"reservation"` // what --reservation names

	GPUFlag    string `yaml:"gpu_flag"`    // how GPUs are asked for: gres, gpus, gpus-per-node or none
	GPUType    string `yaml:"gpu_type"`    // as in --gres=gpu:TYPE:1; empty for any
	MemoryFlag bool   `yaml:"memory_flag"` // give --mem; some sites reject it

	Shell  string            `yaml:"shell"`  // interpreter of the job scripts, absolute
	Setup  []string          `yaml:"setup"`  // lines of the job script before the binary, for example "module load cuda"
	Export map[string]string `yaml:"export"` // environment variables of every task

	Binaries string `yaml:"binaries"` // folder of the lathe binaries as the nodes see it; empty: that of the running lathe

	MaxMinutes   int `yaml:"max_minutes"`    // longest time limit that is asked for; 0 for no bound
	MaxArraySize int `yaml:"max_array_size"` // MaxArraySize of slurm.conf: array indices stay below it; 0 asks scontrol
	MaxSubmit    int `yaml:"max_submit"`     // jobs of the user in the queue at once; 0 asks sacctmgr
	Throttle     int `yaml:"throttle"`       // tasks of one array that run at once; 0 for no bound

	KillOnInvalidDependency bool `yaml:"kill_on_invalid_dependency"` // --kill-on-invalid-dep=yes rather than no
	SignalSeconds           int  `yaml:"signal_seconds"`             // seconds before the time limit at which a task is told to stop
	Requeue                 bool `yaml:"requeue"`                    // let Slurm requeue preempted tasks

	Skip  []string `yaml:"skip"`  // managed flags that are never given, for example --export
	Extra []string `yaml:"extra"` // flags that are given as they stand; a managed flag only if it is in skip

	Stages SiteStages `yaml:"stages"`
}

// SiteStages holds what differs from the site for single stages, gate jobs
// among them.
type SiteStages struct {
	Warm     SiteStage `yaml:"warm"`
	Rollout  SiteStage `yaml:"rollout"`
	Score    SiteStage `yaml:"score"`
	Buffer   SiteStage `yaml:"buffer"`
	Learn    SiteStage `yaml:"learn"`
	Gradient SiteStage `yaml:"gradient"`
	Evaluate SiteStage `yaml:"evaluate"`
	Gate     SiteStage `yaml:"gate"`
}

// SiteStage replaces the site's setting wherever it is not empty. Setup and
// extra are added to the site's.
type SiteStage struct {
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

// DefaultSite is this machine, with the values that a Slurm site starts from.
func DefaultSite() Site {
	return Site{
		Name: "local", Executor: "local", GPUFlag: "gres", MemoryFlag: true,
		Shell: "/bin/bash", SignalSeconds: 180, Requeue: true,
	}
}

// builtinSite gives the profiles that need no file: local, and generic, a
// Slurm cluster of which nothing is known.
func builtinSite(name string) (site Site, ok bool) {
	site = DefaultSite()
	if name == "generic" {
		site.Name, site.Executor = name, "slurm"
	}
	return site, name == site.Name
}

// ResolvedSite is a site profile with every default written out.
type ResolvedSite struct {
	Site   Site
	Path   string // of the file; empty for the built-in site
	YAML   []byte
	SHA256 string // of YAML, in hexadecimal
}

// SiteFolders lists the folders of site profiles, separated like those of
// PATH, in the environment.
const SiteFolders = "LATHE_SITES"

// LoadSite reads a site profile. What has a slash or ends in .yaml is a path;
// any other name is looked up as NAME.yaml in the folders of LATHE_SITES, then
// in jobs/sites below the working folder. The profiles "local" and "generic"
// are built in where there is no such file. Settings are as in [Load]; a
// profile has no base.
func LoadSite(nameOrPath string, settings ...string) (*ResolvedSite, error) {
	path, text, err := findSite(nameOrPath)
	if err != nil {
		return nil, err
	}
	what := path
	site := DefaultSite()
	if path == "" {
		what = "site " + nameOrPath
		site, _ = builtinSite(nameOrPath)
	} else {
		doc, root, err := parseYAML(path, text)
		if err != nil {
			return nil, err
		}
		doc.root = reflect.TypeFor[Site]()
		site.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if root != nil {
			doc.fill(reflect.ValueOf(&site).Elem(), root, "")
		}
		if err := doc.err(); err != nil {
			return nil, err
		}
	}
	if err := applySettings(&site, settings); err != nil {
		return nil, err
	}
	if err := site.validate(what); err != nil {
		return nil, err
	}
	var b strings.Builder
	writeStruct(&b, reflect.ValueOf(site), "")
	sum := sha256.Sum256([]byte(b.String()))
	return &ResolvedSite{Site: site, Path: path, YAML: []byte(b.String()), SHA256: hex.EncodeToString(sum[:])}, nil
}

// findSite reads the file of a profile. The path is empty for a built-in one.
func findSite(nameOrPath string) (path string, text []byte, err error) {
	if strings.ContainsRune(nameOrPath, filepath.Separator) || filepath.Ext(nameOrPath) == ".yaml" {
		text, err := readBounded(nameOrPath)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, exitcode.Usagef("site profile %q does not exist", nameOrPath)
		}
		return nameOrPath, text, err
	}
	var tried []string
	for _, folder := range append(filepath.SplitList(os.Getenv(SiteFolders)), filepath.Join("jobs", "sites")) {
		path := filepath.Join(folder, nameOrPath+".yaml")
		text, err := readBounded(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return path, text, err
		}
		tried = append(tried, path)
	}
	if _, ok := builtinSite(nameOrPath); ok {
		return "", nil, nil
	}
	return "", nil, exitcode.Usagef("site profile %q not found: there is no %s", nameOrPath, strings.Join(tried, " nor "))
}

// Stage is the site as one stage sees it, its own settings folded in. The
// names are those of [SiteStages] in YAML; an unknown one is a bug.
func (s Site) Stage(stage string) (Site, error) {
	v := reflect.ValueOf(s.Stages)
	index, ok := fieldIndex(v.Type(), stage)
	if !ok {
		return Site{}, exitcode.Bugf("site %q: there is no stage %q", s.Name, stage)
	}
	own := v.Field(index).Interface().(SiteStage)
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
