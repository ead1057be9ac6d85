package mle

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// Prompt builds the messages of an instance. To improve on a program that failed
// is to debug it (ExIt App. B; the transition Φ of AceGRPO §4.1). A
// parent in which there is no program leaves nothing to go on from: the prompt is
// that of a first attempt. Of two programs to join, one that is missing leaves the
// other to improve on.
func (e *Env) Prompt(of env.Task, kind shard.Kind, parent env.Parent) ([]shard.Message, error) {
	t, err := e.folder(of)
	if err != nil {
		return nil, err
	}
	template, values := e.style.draft, e.values(t)
	switch kind {
	case shard.KindInitial:
		if len(parent.Messages) > 0 {
			return nil, exitcode.Bugf("prompting %q: a first attempt has no history, and was given %d messages", of.ID, len(parent.Messages))
		}
	case shard.KindImprove, shard.KindDebug, shard.KindDiverge, shard.KindCrossover:
		var other solution
		if parent.Partner != nil {
			other = e.solutionOf(*parent.Partner)
		}
		s := e.solutionOf(parent)
		if s.program == "" && other.program != "" {
			s, other, parent = other, s, *parent.Partner
		}
		if s.program == "" {
			break
		}
		template = e.templateFor(kind, s)
		if kind == shard.KindCrossover && other.program != "" {
			template = e.style.crossover
			e.fillInOther(values, t, other)
		}
		e.fillIn(values, t, s, parent.Messages)
	default:
		return nil, exitcode.Bugf("prompting %q: the environment %s has no instances of kind %q", of.ID, Name, kind)
	}
	var messages []shard.Message
	if e.style.system != "" {
		messages = append(messages, shard.Message{Role: "system", Content: fill(e.style.system, values)})
	}
	return append(messages, shard.Message{Role: "user", Content: fill(template, values)}), nil
}

func (e *Env) templateFor(kind shard.Kind, s solution) string {
	switch {
	case kind == shard.KindDiverge:
		return e.style.diverge
	case kind == shard.KindDebug, s.failed:
		return e.style.debug
	}
	return e.style.improve
}

// values are what templates may say of a task, and of a first attempt.
func (e *Env) values(t *task.Task) map[string]string {
	return map[string]string{
		"task_name": t.Name, "title": t.Title, "metric": t.Metric,
		"task_description": t.Description, "data_preview": t.Preview, "data_files": strings.Join(files(t), ", "), "sample_submission": t.Sample,
		"packages": "'" + strings.Join(e.settings.Program.Packages, "', '") + "'", "hardware": e.settings.hardware(t), "weights": strings.Join(e.settings.Program.Read, ", "),
		"wall_seconds":      strconv.FormatFloat(e.settings.limits(t).WallSeconds, 'g', -1, 64),
		"validate_seconds":  strconv.FormatFloat(e.settings.Limits.ValidateSeconds, 'g', -1, 64),
		"turns":             strconv.Itoa(e.settings.MaxTurns),
		"validation_format": e.settings.Prompts.Validation,
		"program":           e.style.starter, "response": "", "terminal_output": "", "debug_info": "", "memory": "", "score": "",
		"other_program": "", "other_terminal_output": "", "other_score": "",
	}
}

// hardware is what a program has, in words.
func (s *Settings) hardware(t *task.Task) string {
	if s.Program.Hardware != oneCore {
		return s.Program.Hardware
	}
	counted := func(n int, what string) string {
		if n == 1 {
			return "one " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	text := counted(s.Program.Threads, "CPU core")
	if gpus := s.limits(t).GPUs; gpus > 0 {
		text += " and " + counted(gpus, "GPU")
	}
	return text
}

// files are the names of the public files.
func files(t *task.Task) []string {
	entries, err := os.ReadDir(t.PublicDir)
	if err != nil {
		return nil // gone since it was read: the program will say so
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// solution is what a prompt goes on from.
type solution struct {
	response, program, output string
	failed                    bool
	verdict                   *env.TurnVerdict // nil where it is not known
}

// solutionOf finds the solution of a parent.
func (e *Env) solutionOf(parent env.Parent) solution {
	said := env.Said(parent.Messages, 0)
	if len(said) == 0 {
		return solution{}
	}
	s := solution{response: parent.Messages[said[len(said)-1]].Content, verdict: parent.Verdict}
	s.program, _ = e.programIn(s.response)
	if s.verdict != nil {
		s.failed, s.output = s.verdict.Outcome != shard.OutcomeOK, s.verdict.Feedback
		if s.verdict.Extracted != "" {
			s.program = s.verdict.Extracted // an action's is no block of its message
		}
	}
	return s
}

// fillIn adds what templates may say of a solution.
func (e *Env) fillIn(values map[string]string, t *task.Task, s solution, history []shard.Message) {
	values["program"], values["response"] = s.program, s.response
	values["terminal_output"], values["score"] = e.cameOf(t, s)
	if s.failed && s.output != "" {
		values["debug_info"] = "\n\nThe script fails:\n\n" + fence("", s.output)
	}
	values["memory"] = e.remember(values, history)
}

// fillInOther adds what templates may say of the solution that another is joined with.
func (e *Env) fillInOther(values map[string]string, t *task.Task, s solution) {
	values["other_program"] = s.program
	values["other_terminal_output"], values["other_score"] = e.cameOf(t, s)
}

// cameOf says what came of a solution: what it printed with its score, and the score in
// brackets.
func (e *Env) cameOf(t *task.Task, s solution) (output, score string) {
	line := e.scoreLine(t, s.verdict)
	if line != "" {
		score = " (" + strings.TrimSuffix(line, ".") + ")"
	}
	return strings.TrimSpace(s.output + "\n" + line), score
}

// scoreLine is what the policy is told of a score: what the program has said of
// itself and, where the recipe wants it and the score has it, its rank. An
// evaluation's scores have none.
func (e *Env) scoreLine(t *task.Task, verdict *env.TurnVerdict) string {
	if verdict == nil || e.settings.Feedback.Score == "none" {
		return ""
	}
	var said []string
	if _, ok := verdict.Validation(); ok {
		said = append(said, fmt.Sprintf("Its validation score was %v.", verdict.ValidationScore))
	}
	if _, graded := verdict.Part(partHumanRank); graded && e.settings.Feedback.Score == "rank" {
		said = append(said, fmt.Sprintf("Its place on the leaderboard was %d of %d.", min(t.Board.Position(verdict.RawScore), t.Board.Teams()), t.Board.Teams()))
	}
	return strings.Join(said, " ")
}

const memoryTitle = "# Memory\n\n"

var memoryEntry = lazyregexp.New(`(?m)^## Solution \d+\n`)

// remember is the memory of a prompt to improve: the last solutions, each with
// what came of it, the latest last. Those before the parent are in the parent's
// own prompt, which alone knows what came of them.
func (e *Env) remember(values map[string]string, history []shard.Message) string {
	if !strings.Contains(e.style.improve, "{memory}") {
		return ""
	}
	var entries []string
	if said := env.Said(history, 0); len(said) > 0 && said[len(said)-1] > 0 {
		prompt := history[said[len(said)-1]-1].Content
		if memory, found := strings.CutPrefix(prompt, memoryTitle); found {
			if end := strings.Index(memory, "\n# End of memory\n"); end >= 0 {
				entries = memoryEntry().Split(memory[:end+1], -1)[1:]
			}
		}
	}
	own := fence("python", values["program"]) + "\n\n### Execution output\n" + fence("", values["terminal_output"]) + "\n"
	entries = append(entries, own)
	entries = entries[max(0, len(entries)-e.settings.Feedback.History):]
	var b strings.Builder
	b.WriteString(memoryTitle)
	for i, entry := range entries {
		fmt.Fprintf(&b, "## Solution %d\n%s", i+1, entry)
	}
	return b.String() + "# End of memory\n\n"
}

// humanRank is the formula by which quality is a rank; ok is false where it is
// none.
func (s *Settings) humanRank() (formula mlebench.HumanRank, ok bool) {
	switch s.Quality {
	case "humanrank":
		return mlebench.Paper, true
	case "humanrank_mledojo":
		return mlebench.MLEDojo, true
	}
	return "", false
}
