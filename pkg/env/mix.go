package env

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/shares"
)

//go:embed mix.go
var mixSource string

var _ = config.Docs[Part](mixSource)

// MixName is that of several environments in one run, in recipes.
const MixName = "mixed"

// Mix are the environments of one run.
type Mix []Part

// Part is one environment of several. Its other fields are those of the section env of
// a recipe of it alone.
type Part struct {
	Name   string  `yaml:"name"`   // which environment
	As     string  `yaml:"as"`     // its name in the run, in small letters, digits, - and _; empty for name. Ids and kinds of its tasks begin with it and a slash; its held-out problems are the set of this name, other sets of it are NAME/SET
	Weight float64 `yaml:"weight"` // from 0.001 to 1000, to a thousandth: its share of each plan's prompts is weight / the sum of the weights, exactly over the plans so far. Environments without training tasks take no part, and are measured alone
	// MaxNewTokens and Steps are of training; sets of held-out problems have their own.
	MaxNewTokens *int     `yaml:"max_new_tokens"` // of each of the policy's messages; null: as in rollout
	Steps        *int     `yaml:"steps"`          // attempts after the first; null: as in scaffold
	Data         PartData `yaml:"data"`           // the fields of the section data of a recipe of it alone
	Settings     any      `yaml:",inline"`
}

// PartData says where the problems of one of several environments come from.
type PartData struct {
	Settings any `yaml:",inline"`
}

// Choices lists the environments that can stand beside others.
func (Part) Choices(field string) []string {
	if field == "name" {
		return slices.DeleteFunc(Axis.Names(), func(name string) bool { return name == MixName })
	}
	return nil
}

// SetDefaults gives an environment the weight of any other.
func (p *Part) SetDefaults() { p.Weight = 1 }

// Open gives the part the fields of the environment of a name.
func (p *Part) Open(name string) (err error) {
	if name == MixName {
		return exitcode.Usagef("%q is several environments already: list them here", name)
	}
	p.Name = name
	p.Settings, p.Data.Settings, err = Defaults(name)
	return err
}

func (p Part) make() (Setup, error) { return Axis.Make(p.Name, p.Settings) }

// Called is the name in the run.
func (p Part) Called() string {
	if p.As == "" {
		return p.Name
	}
	return p.As
}

// Setup makes one environment of them.
func (m Mix) Setup() (Setup, error) {
	s := Setup{
		Data: &struct{}{}, Load: m.load,
		New: func(tasks *TaskSet, folder string) (Env, error) { return m.make(tasks, folder) },
	}
	for _, p := range m {
		own, err := p.make()
		if err != nil {
			return Setup{}, err
		}
		s.add(own)
	}
	return s, nil
}

// add makes a setup one that is good for another environment too.
func (s *Setup) add(own Setup) {
	s.Traits = s.Traits.with(own.Traits)
	if earlier, host := s.Host, own.Host; host != nil {
		s.Host = func() (notes []string, err error) {
			if earlier != nil {
				if notes, err = earlier(); err != nil {
					return nil, err
				}
			}
			more, err := host()
			return append(notes, more...), err
		}
	}
}

// with are the traits by which the tasks of two environments can be scheduled together;
// those of a trace are its own environment's ([TraitsOf]).
func (t Traits) with(o Traits) Traits {
	joint := Traits{
		Turns: max(t.Turns, o.Turns), Slow: t.Slow || o.Slow, Threads: max(t.Threads, o.Threads), AtATime: max(t.AtATime, o.AtATime), Batch: max(t.Batch, o.Batch),
		Waves: max(t.Waves, o.Waves), MaxFailed: t.MaxFailed, MaxFailedSetting: t.MaxFailedSetting,
		Programs: t.Programs || o.Programs, Validated: t.Validated || o.Validated, ByMessage: t.ByMessage || o.ByMessage, Transcript: t.Transcript || o.Transcript,
		Joins: t.Joins && o.Joins,
	}
	if o.MaxFailed > t.MaxFailed {
		joint.MaxFailed, joint.MaxFailedSetting = o.MaxFailed, o.MaxFailedSetting
	}
	return joint
}

// The split of a set of held-out problems of one environment, and back.
func (p Part) jointSplit(own Split) Split {
	switch own {
	case Train:
		return Train
	case Test:
		return Split(p.Called())
	}
	return Split(p.Called()) + "/" + own
}

func (p Part) ownSplit(joint Split) Split {
	name := Split(p.Called())
	switch own, other := strings.CutPrefix(string(joint), string(name)+"/"); {
	case joint == Train:
		return Train
	case other:
		return Split(own)
	}
	return Test
}

// load reads the tasks of all environments.
func (m Mix) load(_ any, seed uint64, folder string) (*TaskSet, error) {
	joint := NewTaskSet(MixName)
	joint.parts = map[string]*TaskSet{}
	for _, p := range m {
		setup, err := p.make()
		if err != nil {
			return nil, err
		}
		own, err := setup.Load(p.Data.Settings, seed, folder)
		if err != nil {
			return nil, err
		}
		joint.parts[p.Called()] = own
		joint.join(p, own)
	}
	joint.addTest(m)
	return joint, nil
}

// join adds the tasks of an environment.
func (s *TaskSet) join(p Part, own *TaskSet) {
	name := p.Called() + "/"
	s.AddInputs(own.Inputs...)
	s.LeftOut += own.LeftOut
	for _, left := range own.LeftOutNames {
		s.LeftOutNames = append(s.LeftOutNames, name+left)
	}
	for _, note := range own.Notes {
		s.Notes = append(s.Notes, p.Called()+": "+note)
	}
	for _, split := range own.order {
		for _, t := range own.splits[split] {
			facts := own.tasks[t.ID].facts
			t.ID, t.Kind = name+t.ID, name+t.Kind
			s.Add(t, Facts{Env: p.Called(), Split: p.jointSplit(split), Source: facts.Source, Folder: facts.Folder})
		}
	}
	before, texts := s.Texts, own.Texts
	if texts == nil {
		texts = func() []string { return problems(own.Tasks(Train)) }
	}
	s.Texts = func() []string {
		if before == nil {
			return texts()
		}
		return append(before(), texts()...)
	}
}

func problems(tasks []Task) (texts []string) {
	for _, t := range tasks {
		texts = append(texts, t.Question, t.Answer)
	}
	return texts
}

// addTest makes the test split of those of the environments, in the order of their
// shares, while each has problems left.
func (s *TaskSet) addTest(m Mix) {
	var weights []float64
	var left [][]Task
	for _, p := range m {
		if tasks := s.splits[p.jointSplit(Test)]; len(tasks) > 0 {
			weights, left = append(weights, p.Weight), append(left, tasks)
		}
	}
	if len(left) == 0 {
		return
	}
	for i := range shares.New(weights).Rows() {
		if len(left[i]) == 0 {
			return
		}
		facts := s.tasks[left[i][0].ID].facts
		facts.Split = Test
		s.Add(left[i][0], facts)
		left[i] = left[i][1:]
	}
}

// mixed is several environments. Each knows its own tasks by their own ids alone.
type mixed struct {
	*TaskSet
	traits Traits
	parts  map[string]Env // those that have tasks, by their names in the run
}

func (m Mix) make(tasks *TaskSet, folder string) (Env, error) {
	joint := &mixed{TaskSet: tasks, parts: map[string]Env{}}
	tasks.weights = map[string]float64{}
	for _, p := range m {
		setup, err := p.make()
		if err != nil {
			return nil, err
		}
		joint.traits = joint.traits.with(setup.Traits)
		tasks.weights[p.Called()] = p.Weight
		own := tasks.parts[p.Called()]
		if own == nil {
			own = p.tasksOf(tasks)
		}
		if len(own.tasks) == 0 {
			continue
		}
		if joint.parts[p.Called()], err = setup.New(own, folder); err != nil {
			return nil, err
		}
	}
	return joint, nil
}

// tasksOf are the tasks of the environment among those of all.
func (p Part) tasksOf(joint *TaskSet) *TaskSet {
	var rows []shard.TaskRow
	seen := map[[2]string]bool{} // split and task: the test split repeats the environments' sets
	for _, row := range joint.Rows() {
		if row.Env != p.Called() {
			continue
		}
		name := p.Called() + "/"
		row.TaskID, row.Kind, row.Split = strings.TrimPrefix(row.TaskID, name), strings.TrimPrefix(row.Kind, name), string(p.ownSplit(Split(row.Split)))
		if at := [2]string{row.Split, row.TaskID}; !seen[at] {
			seen[at] = true
			rows = append(rows, row)
		}
	}
	return TasksOf(p.Name, rows)
}
