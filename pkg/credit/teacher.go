package credit

import (
	_ "embed"
	"math"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/registry"
)

//go:embed teacher.go
var teacherSource string

var _ = config.Docs[Teacher](teacherSource)

func init() {
	AdvantageAxis.Register(registry.Choice[Advantage]{
		Name: "teacher", Summary: "none of the rewards: advantage.teacher alone (on-policy distillation)",
		Make: func(any) (Advantage, error) { return byTeacher{}, nil },
	})
}

// Teacher is a policy that scores each token that was sampled. On-policy distillation
// (Thinking Machines, On-Policy Distillation, 2025) adds to the advantage of token y_t,
// once rewards have made it,
//
//	coef · (log p_T(y_t | teacher's prompt, y_<t) - log p(y_t | prompt, y_<t))
//
// with the log-probability p under the policy that sampled it: the reverse
// Kullback-Leibler divergence, token by token, with a discount of 0. Under the prompt of
// context improve or improve_best the teacher knows what became of an answer:
// self-distillation (SDPO, arXiv 2601.20802, in its form for the sampled token alone; OPSD,
// arXiv 2601.18734).
type Teacher struct {
	Coef    float64        `yaml:"coef" json:"coef"`                                             // of the difference of log-probabilities; 0 for no teacher
	Path    string         `yaml:"path" json:"path" path:"file"`                                 // folder of the teacher, whose tokens and end tokens are the policy's; empty for a version of this run
	Version TeacherVersion `yaml:"version" json:"version"`                                       // of this run, where path is empty: current, the one that the iteration starts from, or a number, which an iteration that starts from an earlier one replaces by that
	Context string         `yaml:"context" json:"context" choices:"prompt,improve,improve_best"` // what the teacher reads before the response: prompt, the policy's own prompt; improve, the environment's prompt to improve this very response, with its feedback; improve_best, that to improve the response of the group with the highest reward
	Bound   float64        `yaml:"bound" json:"bound"`                                           // on the absolute value of a difference, in nats; 0 for none
}

// TeacherVersion is a policy version of the run.
type TeacherVersion int

// TeacherCurrent is the version that each iteration starts from.
const TeacherCurrent TeacherVersion = math.MinInt32

// Words are the values that are no number.
func (TeacherVersion) Words() map[string]int { return map[string]int{"current": int(TeacherCurrent)} }

// The choices of context.
const (
	TeacherPrompt      = "prompt"
	TeacherImprove     = "improve"
	TeacherImproveBest = "improve_best"
)

// Active reports whether there is a teacher.
func (t Teacher) Active() bool { return t.Coef != 0 }

// Rewords reports whether the teacher reads another prompt than the policy.
func (t Teacher) Rewords() bool { return t.Active() && t.Context != TeacherPrompt }

// VersionAt is the policy version that teaches iteration k, from 1.
func (t Teacher) VersionAt(k int) int {
	if t.Version == TeacherCurrent {
		return k - 1
	}
	return min(int(t.Version), k-1)
}

// Add returns the advantages of a sequence with the teacher's part: one entry for each
// token, unchanged where the mask is false. teacher and old are log-probabilities in nats.
func (t Teacher) Add(advantages, teacher, old []float32, mask []bool) []float32 {
	sums := make([]float32, len(advantages))
	copy(sums, advantages)
	for i, learned := range mask {
		if !learned {
			continue
		}
		d := float64(teacher[i]) - float64(old[i])
		if t.Bound > 0 {
			d = max(-t.Bound, min(t.Bound, d))
		}
		sums[i] = float32(float64(advantages[i]) + t.Coef*d)
	}
	return sums
}

// TeacherAlone reports whether the teacher's part is all of the advantage.
func (a AdvantageSettings) TeacherAlone() bool { return a.Name == "teacher" }

// byTeacher leaves the advantages to the learner, which adds the teacher's part.
type byTeacher struct{}

func (byTeacher) Critic() bool                     { return false }
func (byTeacher) Advantage(Group, []Segment) error { return nil }
