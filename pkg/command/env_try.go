package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/command/jsonlines"
	"github.com/lathe-rl/lathe/pkg/command/plain"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/plainjson"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/promptroom"
	"github.com/lathe-rl/lathe/pkg/stage/rollout"
	"github.com/lathe-rl/lathe/pkg/stage/score"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// EnvTryOptions are those of lathe env try.
type EnvTryOptions struct {
	RecipeOptions
	Model     string // folder of a policy; empty for the recipe's
	Responses string // file of responses in the place of sampled ones
	Problems  int    // to train on that are tried, from the first
	Samples   int    // responses to each
	Threads   int    // of the engine; 0 is all
	JSON      bool
}

func envTryCommand() *cli.Command {
	var o EnvTryOptions
	return cmdline.Help{
		Example: "lathe env try jobs/own-reward.yaml --responses data/program/responses.jsonl\nlathe env try jobs/gsm8k.yaml --model runs/first/policy/v000010 --problems 4",
		Exits:   map[int]string{exitcode.LeftOut: "done, with findings that would harm a run", exitcode.Data: "", exitcode.Unavailable: "", exitcode.Stopped: ""},
	}.Command(&cli.Command{
		Name: "try", Usage: "show prompts, responses and rewards before a run, and check them", ArgsUsage: "RECIPE",
		Description: "Scores each response twice. Reports rewards that differ between the two, that are the same for all\n" +
			"responses or that depend only on length; prompts of every kind that the recipe uses (initial, improve,\n" +
			"diverge, debug) that leave no room in the policy's context; and chat templates that omit a message.",
		Flags: []cli.Flag{
			cmdline.SetFlag(&o.Set),
			&cli.StringFlag{Name: "model", Usage: "policy `FOLDER` that answers; default: the recipe's policy.path", Destination: &o.Model},
			&cli.StringFlag{Name: "responses", Usage: "read responses from `FILE` instead of sampling: lines of {\"response\", \"id\"}; lines without the id of a task answer the tasks in turn", Destination: &o.Responses},
			&cli.IntFlag{Name: "problems", Value: 4, Usage: "number of problems to try", Destination: &o.Problems},
			&cli.IntFlag{Name: "samples", Value: 4, Usage: "responses to sample per problem", Destination: &o.Samples},
			cmdline.ThreadsFlag(&o.Threads), cmdline.JSONFlag(&o.JSON),
		},
		Action: cmdline.Argument("RECIPE", &o.Recipe, func(c *cli.Context) error { return EnvTry(c.Context, c.App.Writer, o) }),
	})
}

// tried is what lathe env try found out.
type tried struct {
	Problems  int             `json:"problems"` // there are to train on
	HeldOut   int             `json:"held_out"`
	Prompts   []triedPrompt   `json:"prompts"`
	Responses []triedResponse `json:"responses"`
	Findings  []string        `json:"findings"`
}

// triedPrompt is what a policy is asked.
type triedPrompt struct {
	Task   string `json:"task"`
	Text   string `json:"text"`   // as the policy reads it, or the messages where no policy is known
	Tokens int    `json:"tokens"` // 0 where no policy is known
}

// triedResponse is a response with both of its scores.
type triedResponse struct {
	Task     string             `json:"task"`
	Response string             `json:"response"` // all that the policy said
	Reward   *float64           `json:"reward"`   // null where it could not be scored
	Again    *float64           `json:"reward_again"`
	Parts    map[string]float64 `json:"parts"`
	Outcome  string             `json:"outcome"`
	Feedback string             `json:"feedback"`
	Seconds  float64            `json:"seconds"` // until its second score was there
}

// EnvTry tries the environment and the reward of a recipe.
func EnvTry(ctx context.Context, out io.Writer, o EnvTryOptions) error {
	if err := cmp.Or(cmdline.AtLeast(1, "problems", o.Problems), cmdline.AtLeast(1, "samples", o.Samples)); err != nil {
		return err
	}
	p, err := plain.Open("lathe", o.Recipe, o.Set, o.Threads)
	if err != nil {
		return err
	}
	defer p.Close()
	model := o.Model
	if model == "" && p.Recipe.Policy.Path != "" {
		if model, err = p.Recipe.Policy.Resolve(filepath.Dir(o.Recipe)); err != nil {
			return err
		}
	}
	if model == "" && o.Responses == "" {
		return exitcode.WithHint(exitcode.Usagef("the recipe creates its policy at the start of a run: give --model FOLDER or --responses FILE"),
			`a line of FILE is {"response": "text"}; lines answer the tasks in turn, or the task that "id" gives`)
	}
	t := trial{Work: p, options: o, model: model}
	if err := t.prompts(); err != nil {
		return err
	}
	attempts, err := t.attempts(ctx)
	if err != nil {
		return err
	}
	if err := t.scoreTwice(ctx, attempts); err != nil {
		return err
	}
	t.found.Findings = append(t.found.Findings, rewardFindings(t.found.Responses)...)
	if err := p.Recipe.Evaluation.CheckTasks(p.Env); err != nil {
		t.found.Findings = append(t.found.Findings, err.Error())
	}
	if err := t.print(out); err != nil {
		return err
	}
	if n := len(t.found.Findings); n > 0 {
		return exitcode.LeftOutf("findings: %d", n)
	}
	return nil
}

// trial is a try under way.
type trial struct {
	*plain.Work
	options EnvTryOptions
	model   string // folder; empty for none
	found   tried
}

// prompts words the prompts of all problems, shows the first, and sees what the
// policy's template and context make of all.
func (t *trial) prompts() error {
	train, test := t.Env.Set().Tasks(env.Train), t.Env.Set().Tasks(env.Test)
	t.found.Problems, t.found.HeldOut = len(train), len(test)
	format, room, err := warm.Chat(t.Recipe.Policy, t.Env, t.model)
	if err != nil {
		return err
	}
	room = t.Recipe.Rollout.Context(room)
	var f promptFindings
	for i, task := range slices.Concat(train, test) {
		shown := i < min(t.options.Problems, len(train))
		if format == nil && !shown {
			break
		}
		messages, err := t.Env.Prompt(task, shard.KindInitial, env.Parent{})
		if err != nil {
			return err
		}
		one := triedPrompt{Task: task.ID, Text: asText(messages)}
		if format != nil {
			ids, err := format.Prompt(messages)
			if err != nil {
				f.refused(task.ID, err)
			} else {
				one.Text, one.Tokens = format.Tokenizer().Decode(ids), len(ids)
				f.add(task.ID, messages, one, room, t.Recipe.Rollout.MaxNewTokens)
			}
		}
		if shown {
			t.found.Prompts = append(t.found.Prompts, one)
		}
	}
	t.found.Findings = f.findings(room, t.Recipe.Rollout.MaxNewTokens)
	if format == nil {
		return nil
	}
	uses, err := promptroom.Look(promptroom.SettingsOf(t.Recipe), t.Env, promptroom.Policy{Chat: format, Positions: room})
	if err != nil {
		return err
	}
	// Of first answers all prompts were looked at.
	later := slices.DeleteFunc(uses, func(u promptroom.Use) bool { return u.Kind == shard.KindInitial })
	t.found.Findings = append(t.found.Findings, promptroom.Notes(later, room)...)
	return nil
}

func asText(messages []shard.Message) string {
	var parts []string
	for _, m := range messages {
		parts = append(parts, m.Role+": "+m.Content)
	}
	return strings.Join(parts, "\n")
}

// attempts are the responses that are scored: given ones, or sampled ones.
func (t *trial) attempts(ctx context.Context) ([]env.Attempt, error) {
	if t.options.Responses != "" {
		return t.given(ctx)
	}
	settings := rollout.SettingsOf(t.Recipe)
	settings.Rollout.Group = t.options.Samples
	sampler, err := rollout.OpenSampler(ctx, settings, t.Job.Process, t.model, t.Env.Traits().Turns)
	if err != nil {
		return nil, err
	}
	defer sampler.Close()
	var instances []shard.Instance
	for i, task := range t.Env.Set().Tasks(env.Train)[:len(t.found.Prompts)] {
		messages, err := t.Env.Prompt(task, shard.KindInitial, env.Parent{})
		if err != nil {
			return nil, err
		}
		instances = append(instances, shard.Instance{InstanceID: "try-" + strconv.Itoa(i), TaskID: task.ID, Kind: string(shard.KindInitial), Messages: messages})
	}
	batch, err := rollout.NewBatch(settings, t.Env, instances, rollout.Inputs{LastRow: len(instances), Iteration: 1})
	if err != nil {
		return nil, err
	}
	if err := batch.Play(ctx, sampler); err != nil {
		return nil, err
	}
	taskOf := map[string]string{}
	for _, instance := range instances {
		taskOf[instance.InstanceID] = instance.TaskID
	}
	var attempts []env.Attempt
	for _, rows := range shard.Traces(batch.Rows(0, 0)) {
		task, _ := t.Env.Set().Task(taskOf[rows[0].InstanceID])
		a := env.Attempt{Task: task, Kind: shard.KindInitial}
		for _, row := range rows {
			for _, at := range env.Said(row.Messages, int(row.PromptMessages)) {
				a.Own = append(a.Own, len(a.Messages)+at)
			}
			a.Messages, a.Finish = append(a.Messages, row.Messages...), row.FinishReason
		}
		if len(a.Own) > 0 {
			attempts = append(attempts, a)
		}
	}
	return attempts, nil
}

// givenResponse is a line of --responses.
type givenResponse struct {
	ID       string  `json:"id"`
	Response *string `json:"response"`
}

func (t *trial) given(ctx context.Context) ([]env.Attempt, error) {
	file, err := os.Open(t.options.Responses)
	if err != nil {
		return nil, exitcode.Usagef("--responses: %w", err)
	}
	defer file.Close()
	lines := jsonlines.NewReader(ctx, file)
	train := t.Env.Set().Tasks(env.Train)
	var attempts []env.Attempt
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var given givenResponse
		if err == nil {
			err = plainjson.Strict(line, &given)
		}
		if err == nil && given.Response == nil {
			err = errors.New(`"response" is missing`)
		}
		if err != nil {
			return nil, exitcode.Dataf("--responses %s, line %d: %w", t.options.Responses, lines.Number, err)
		}
		task := train[len(attempts)%len(train)]
		if given.ID != "" {
			ok := false
			if task, ok = t.Env.Set().Task(given.ID); !ok {
				return nil, exitcode.Dataf("--responses %s, line %d: there is no task %q", t.options.Responses, lines.Number, given.ID)
			}
		}
		messages, err := t.Env.Prompt(task, shard.KindInitial, env.Parent{})
		if err != nil {
			return nil, err
		}
		messages, _ = env.Answer(messages, len(messages), *given.Response)
		attempts = append(attempts, env.Attempt{Task: task, Kind: shard.KindInitial, Messages: messages, Own: []int{len(messages) - 1}, Finish: "stop"})
	}
	if len(attempts) == 0 {
		return nil, exitcode.Dataf("--responses %s has no responses", t.options.Responses)
	}
	return attempts, nil
}

// scoreTwice has every attempt scored twice, the second time in the reverse order: in
// other company, and by a program that has seen others before.
func (t *trial) scoreTwice(ctx context.Context, attempts []env.Attempt) error {
	t.found.Responses = make([]triedResponse, len(attempts))
	for pass := range 2 {
		var all sync.WaitGroup
		places := make(chan struct{}, score.AtATime(t.Env.Traits(), t.Job.Threads))
		for i := range attempts {
			at := i
			if pass == 1 {
				at = len(attempts) - 1 - i
			}
			places <- struct{}{}
			all.Go(func() {
				defer func() { <-places }()
				t.verdict(ctx, attempts[at], &t.found.Responses[at], pass)
			})
		}
		all.Wait()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) verdict(ctx context.Context, a env.Attempt, r *triedResponse, pass int) {
	began := time.Now()
	v, err := t.Env.Score(ctx, a)
	reward := &v.Reward
	if err != nil {
		reward = nil
	}
	if pass == 1 {
		if r.Again = reward; err != nil && r.Reward != nil {
			r.Feedback = err.Error()
		}
		r.Seconds = time.Since(began).Seconds() // all programs have started by now
		return
	}
	var said []string
	for _, at := range a.Own {
		said = append(said, a.Messages[at].Content)
	}
	*r = triedResponse{
		Task: a.Task.ID, Response: strings.Join(said, "\n"), Reward: reward, Parts: map[string]float64{},
		Outcome: string(v.Outcome), Feedback: v.Feedback,
	}
	for _, part := range v.Parts {
		r.Parts[part.Name] = part.Value
	}
	if err != nil {
		r.Outcome, r.Feedback = string(shard.OutcomeInfra), err.Error()
	}
}

// quoted is a text in quotes, and nothing where there is none.
func quoted(text string) string {
	if text == "" {
		return "-"
	}
	return strconv.Quote(text)
}

// print shows what was tried.
func (t *trial) print(out io.Writer) error {
	if t.options.JSON {
		if t.found.Findings == nil {
			t.found.Findings = []string{}
		}
		return cmdline.WriteJSON(out, t.found)
	}
	fmt.Fprintf(out, "%s to train on, %d held out\n", plural.Count(t.found.Problems, "problem"), t.found.HeldOut)
	for _, p := range t.found.Prompts[:min(2, len(t.found.Prompts))] {
		size := "no policy"
		if p.Tokens > 0 {
			size = plural.Count(p.Tokens, "token")
		}
		fmt.Fprintf(out, "\nprompt of %s (%s):\n  %s\n", p.Task, size, strings.ReplaceAll(shortened(p.Text, 2000), "\n", "\n  "))
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "task\treward\tparts\toutcome\tseconds\tresponse\tfeedback")
	for _, r := range t.found.Responses {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.3f\t%s\t%s\n", r.Task, number(r.Reward), parts(r.Parts), r.Outcome, r.Seconds, strconv.Quote(shortened(r.Response, 60)), quoted(shortened(r.Feedback, 200)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, finding := range t.found.Findings {
		fmt.Fprintln(out, "found:", finding)
	}
	if note := noteFew(t.found.Responses); note != "" {
		fmt.Fprintln(out, "note:", note)
	}
	if len(t.found.Findings) == 0 {
		fmt.Fprintln(out, "no problems found")
	}
	return nil
}
