package measure

import (
	"fmt"
	"time"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// summaryFormat names the layout of summary.json. Keys are added, never
// renamed.
const summaryFormat = "lathe-summary/1.0"

// Summary is report/summary.json. Its keys are a contract.
//
// Pointers, lists and maps are null when their value is not known; Missing
// then has the key and the reason. A standard error is null with its value,
// and with fewer than two problems or where these do not differ.
type Summary struct {
	Format       string `json:"format"`
	RunID        string `json:"run_id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	Seed         uint64 `json:"seed"`
	RecipeSHA256 string `json:"recipe_sha256"`
	Preset       string `json:"preset"`
	Environment  string `json:"environment"`
	Curriculum   string `json:"curriculum"`
	// Composition is what the recipe chooses on every axis, in its words.
	Composition   []recipe.Choice `json:"composition"`
	BinaryVersion string          `json:"binary_version"` // that made the run
	Created       time.Time       `json:"created"`

	// State is done when everything that the recipe asks for is sealed,
	// pending when nothing is, else unknown: whether somebody is working on
	// the rest cannot be told from the files. Ask lathe status.
	State          string `json:"state"`
	Iterations     int    `json:"iterations"` // that the recipe asks for
	IterationsDone int    `json:"iterations_done"`
	LeftOutShards  int    `json:"left_out_shards"` // that iterations were closed without for good
	HostCount      *int   `json:"host_count"`

	Problems    int     `json:"evaluation_problems"`
	Samples     int     `json:"evaluation_samples"` // n of avg@n
	Steps       int     `json:"evaluation_steps"`   // K revisions
	Temperature float64 `json:"evaluation_temperature"`
	Graded      bool    `json:"evaluation_graded"` // some held-out answer scores between 0 and 1, as a puzzle's may

	// Before is policy v000000, after is the run's last version. Without a
	// step in their name accuracies are of first answers, step 0. They are mean
	// scores: of answers that are right or wrong, the share of right ones.
	AccuracyBefore              *float64 `json:"accuracy_before"`
	AccuracyBeforeStandardError *float64 `json:"accuracy_before_standard_error"`
	AccuracyAfter               *float64 `json:"accuracy_after"`
	AccuracyAfterStandardError  *float64 `json:"accuracy_after_standard_error"`
	AccuracyGain                *float64 `json:"accuracy_gain"` // after - before
	AccuracyGainStandardError   *float64 `json:"accuracy_gain_standard_error"`
	GreedyAccuracyBefore        *float64 `json:"greedy_accuracy_before"`
	GreedyAccuracyAfter         *float64 `json:"greedy_accuracy_after"`

	// Over revisions 0 to K.
	AccuracyByStep       []float64 `json:"accuracy_by_step"` // of the last version
	AccuracyByStepBefore []float64 `json:"accuracy_by_step_before"`
	// Delta is the accuracy at step K less that at step 0 (ExIt §5.3).
	DeltaKBefore              *float64 `json:"delta_k_before"`
	DeltaKBeforeStandardError *float64 `json:"delta_k_before_standard_error"`
	DeltaK                    *float64 `json:"delta_k"` // of the last version
	DeltaKStandardError       *float64 `json:"delta_k_standard_error"`

	Corrections       *Corrections   `json:"corrections"` // by the last version
	CorrectionsBefore *Corrections   `json:"corrections_before"`
	AccuracyByKind    []KindAccuracy `json:"accuracy_by_kind"`
	AccuracyByLevel   []KindAccuracy `json:"accuracy_by_level"` // the level is the kind; for tool use the number of the user's turns
	Milestones        []KindAccuracy `json:"milestones"`        // shares of first answers; problems are those of which some answer reached it
	AccuracyByVersion []Version      `json:"accuracy_by_version"`
	SelectedVersion   *Selection     `json:"selected_version"` // null where no set has the role validation
	AccuracyBySet     []SetAccuracy  `json:"accuracy_by_set"`  // of the recipe's evaluation.sets; all else is of the test split
	Submissions       []Submissions  `json:"submissions"`      // by version; empty where no task has a leaderboard

	// Wall clock. The times come from the manifests, each from the clock of
	// its own host, so sums inside a task are exact and spans over hosts are
	// as good as the hosts' clocks agree.
	WallSeconds        *float64           `json:"wall_seconds"` // first start to last end, pauses included
	WallSecondsByStage map[string]float64 `json:"wall_seconds_by_stage"`
	Stages             []StageTime        `json:"stages"`
	Tails              []Tail             `json:"tails"` // of stages with arrays of two tasks or more
	// LateFiles is how long tasks waited for files that other nodes had sealed; null where
	// none did.
	LateFiles *LateFiles `json:"late_files"`
	// OrchestrationSeconds is the median over iterations of the time in which
	// no task ran.
	OrchestrationSeconds *float64 `json:"orchestration_seconds_per_iteration"`

	Tokens   Tokens         `json:"tokens"`
	Outcomes map[string]int `json:"outcomes"` // of sampled training responses
	Ledger   rundir.Ledger  `json:"ledger"`

	WarmStartLoss *WarmStartLoss `json:"warm_start_loss"` // null without rows that warm_start.data holds out

	Sandboxes map[string]int `json:"sandboxes"` // of sampled training responses whose programs ran, by what these ran under

	Room shard.Rooms `json:"room"` // that prompts left

	RewardAudit *RewardAudit `json:"reward_audit"` // of sampled training responses

	ScoresTaken *ScoresTaken `json:"scores_taken"` // null for a run that takes no scores of another

	Series []Iteration `json:"iteration_series"`

	PolicyVersion *int              `json:"policy_version"` // the newest that is sealed
	PolicySHA256  *string           `json:"policy_sha256"`  // of model.safetensors of the run's last version
	Missing       map[string]string `json:"missing"`        // key -> why its value is null

	Unmeasured []Sealed       `json:"-"` // evaluated versions of which shards are missing, in their order
	Newest     *seal.Manifest `json:"-"` // of the newest sealed policy; nil for none
}

func (s Sealed) String() string {
	return fmt.Sprintf("the evaluation of policy v%06d is not done: %s sealed", s.Version, plural.Of(s.Sealed, s.Shards, "shard"))
}

// Selection is the policy version that is selected by the validation sets.
type Selection struct {
	Version    int     `json:"version"`
	Validation float64 `json:"validation"` // mean score after the last revision of the sets
	Accuracy   float64 `json:"accuracy"`   // of the benchmarks after their last revision
}

// Version is the evaluation of one policy version.
type Version struct {
	Version               int          `json:"version"`
	Accuracy              *float64     `json:"accuracy"`
	StandardError         *float64     `json:"standard_error"`
	GreedyAccuracy        *float64     `json:"greedy_accuracy"`
	AccuracyByStep        []float64    `json:"accuracy_by_step"`
	StandardErrorByStep   []*float64   `json:"standard_error_by_step"`
	GreedyAccuracyByStep  []float64    `json:"greedy_accuracy_by_step"`
	DeltaK                *float64     `json:"delta_k"`
	DeltaKStandardError   *float64     `json:"delta_k_standard_error"`
	ResponseTokensPerStep []float64    `json:"response_tokens_by_step"` // mean length of an answer
	Corrections           *Corrections `json:"corrections"`
	// NetCorrections[i][j] is Corrections.Net from step i to step j, for i < j; 0
	// elsewhere.
	NetCorrections [][]int `json:"net_corrections"`
	Excluded       int     `json:"excluded"` // responses that failed for a reason that is not the policy's
	NoRoom         int     `json:"no_room"`  // attempts without a response, since their prompts filled the policy's context; in no number above
}

// SetAccuracy is the evaluation of a named set of held-out problems.
type SetAccuracy struct {
	Set         string    `json:"set"`
	Problems    int       `json:"problems"`
	Samples     int       `json:"samples"`
	Steps       int       `json:"steps"`
	Temperature float64   `json:"temperature"`
	Versions    []Version `json:"versions"`
}

// KindAccuracy is the accuracy of first answers on the problems of one kind.
type KindAccuracy struct {
	Kind                string   `json:"kind"`
	Problems            int      `json:"problems"`
	Before              *float64 `json:"before"`
	BeforeStandardError *float64 `json:"before_standard_error"`
	After               *float64 `json:"after"`
	AfterStandardError  *float64 `json:"after_standard_error"`
}

// StageTime says what a stage took.
type StageTime struct {
	Stage          string   `json:"stage"`
	Tasks          int      `json:"tasks"`
	WallSeconds    float64  `json:"wall_seconds"`      // in which at least one of its tasks ran
	TaskSeconds    float64  `json:"task_seconds"`      // summed over tasks
	LongestSeconds float64  `json:"longest_seconds"`   // of one task
	TokenRate      *float64 `json:"tokens_per_second"` // of task time: sampled, or learned from
}

// WarmStartLoss is the mean negative log-likelihood of held-out rows, in nats per token.
type WarmStartLoss struct {
	Before *float64 `json:"before"` // null where the first checkpoint is a copy of another run's
	After  float64  `json:"after"`  // the last step that is sealed
}

// Tokens counts tokens, of sealed tasks.
type Tokens struct {
	Prompt     *int64 `json:"prompt"`     // read by rollouts
	Response   *int64 `json:"response"`   // sampled by rollouts
	ReadAgain  *int64 `json:"read_again"` // by rollouts that go on in a later wave
	Trained    *int64 `json:"trained"`    // whose log-probability the loss was computed on, each epoch
	Learned    *int64 `json:"learned"`    // that went through the learner, prompts included
	WarmStart  *int64 `json:"warm_start"` // of demonstrations
	Evaluation *int64 `json:"evaluation"` // sampled by evaluations
}

// Iteration is what one iteration did.
type Iteration struct {
	Iteration          int      `json:"iteration"`
	RewardMean         *float64 `json:"reward_mean"`
	ScoreMean          *float64 `json:"score_mean"`
	ResponseTokensMean *float64 `json:"response_tokens_mean"`
	CutOffShare        *float64 `json:"cut_off_share"` // of responses that met the length limit
	Loss               *float64 `json:"loss"`
	Entropy            *float64 `json:"entropy"`                      // nats per token
	ReferenceKL        *float64 `json:"reference_kl"`                 // nats per token; null without a KL term
	TeacherKL          *float64 `json:"teacher_kl,omitempty"`         // nats per token, of the sampled tokens; null without a teacher
	ReferenceReplaced  bool     `json:"reference_replaced,omitempty"` // by the policy that the iteration ends with
	OldKL              *float64 `json:"old_kl"`                       // k3 of sampler and learner's policy, nats per token
	GradNorm           *float64 `json:"grad_norm"`                    // before clipping, mean over optimizer steps
	ClipShare          *float64 `json:"clip_share"`
	// RatioDeviationMax is the largest |importance ratio - 1|; FirstStep is
	// over the first optimizer step, where it must be 0 on policy.
	RatioDeviationMax          *float64       `json:"ratio_deviation_max"`
	FirstStepRatioDeviationMax *float64       `json:"first_step_ratio_deviation_max"`
	BufferSize                 *int           `json:"buffer_size"` // instances of the curriculum's state
	DepthMean                  *float64       `json:"depth_mean"`  // self-iterations before the sampled response
	Kinds                      map[string]int `json:"kinds"`       // prompts by what they ask for
	Origins                    map[string]int `json:"origins"`
	Trained                    *int           `json:"trained"`           // responses
	Dropped                    map[string]int `json:"dropped"`           // responses by reason
	Transitions                map[string]int `json:"transitions"`       // of traces of several turns, from the first to the last: f2s, s2s, s2f, f2f; and effective_f2s, those with an advantage other than 0
	NonzeroAdvantage           *int           `json:"nonzero_advantage"` // responses that move the policy
	// Rewards are means by environment, where there are several.
	Rewards map[string]float64 `json:"reward_by_environment,omitempty"`
	// Curriculum is what it says of itself.
	Curriculum           map[string]float64 `json:"curriculum"`
	LateShards           *int               `json:"late_shards"`
	CarriedShards        *int               `json:"carried_shards"`
	LeftOutShards        *int               `json:"left_out_shards"`
	WallSeconds          *float64           `json:"wall_seconds"`
	OrchestrationSeconds *float64           `json:"orchestration_seconds"`
}
