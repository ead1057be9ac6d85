package mle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/mlebench/task"
	"github.com/lathe-rl/lathe/pkg/sandbox"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// The actions of MLE-Dojo that MLE-RL App. B takes.
const (
	requestInfo  = "request_info"
	validateCode = "validate_code"
	executeCode  = "execute_code"
)

// action is a message of the policy: one JSON object.
type action struct {
	Action string `json:"action"`
	Params struct {
		InfoType string `json:"info_type"`
		Code     string `json:"code"`
	} `json:"params"`
}

// infoTypes are what may be asked for.
var infoTypes = []string{"overview", "sample_submission", "data_structure", "data_path", "output_path", "name", "metadata", "all"}

// parseAction reads an action, which may stand in a fenced block and after
// thoughts. trouble says what is wrong with it.
func parseAction(message string) (a action, trouble string) {
	if end := strings.LastIndex(message, "</think>"); end >= 0 {
		message = message[end+len("</think>"):]
	}
	message = strings.TrimSpace(message)
	if blocks := fenced().FindAllStringSubmatch(message, -1); len(blocks) == 1 && strings.HasPrefix(message, "```") && strings.HasSuffix(message, "```") {
		message = blocks[0][3]
	}
	d := json.NewDecoder(bytes.NewReader([]byte(message)))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, fmt.Sprintf("The reply is not one JSON object with action and params: %v.", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return a, "The reply has more than one JSON object."
	}
	switch a.Action {
	case requestInfo:
		if !slices.Contains(infoTypes, a.Params.InfoType) {
			return a, fmt.Sprintf("There is no info_type %q; there are %s.", a.Params.InfoType, strings.Join(infoTypes, ", "))
		}
	case validateCode, executeCode:
		if strings.TrimSpace(a.Params.Code) == "" {
			return a, a.Action + " needs a program in params.code."
		}
	default:
		return a, fmt.Sprintf("There is no action %q; there are %s, %s and %s.", a.Action, requestInfo, validateCode, executeCode)
	}
	return a, ""
}

// scoreAction gives the score of an action. Only a valid submission is ok. An
// action that is well formed and submits nothing is wrong, not invalid:
// what is invalid is masked (MLE-RL §4.1).
func (e *Env) scoreAction(ctx context.Context, t *task.Task, message string, cut bool, left time.Duration) (scored, error) {
	a, trouble := parseAction(message)
	switch {
	case cut:
		return e.failed("cut off", "The response was cut off at the length limit."), nil
	case trouble != "":
		return e.failed("bad action", trouble), nil
	case a.Action == executeCode:
		return e.submit(ctx, t, a.Params.Code, left)
	case a.Action == validateCode:
		return e.validate(ctx, t, a.Params.Code, left)
	}
	j := scored{reason: requestInfo, TurnVerdict: env.TurnVerdict{Outcome: shard.OutcomeWrong}}
	e.unscored(&j.TurnVerdict)
	return j, nil
}

// validate runs a program for a short time and grades nothing (reading mlerl-validate).
func (e *Env) validate(ctx context.Context, t *task.Task, program string, left time.Duration) (scored, error) {
	if left <= 0 {
		return e.late(), nil
	}
	wall := min(left, time.Duration(min(e.settings.Limits.ValidateSeconds, e.settings.limits(t).WallSeconds)*float64(time.Second)))
	x, err := e.runner.run(ctx, t, program, wall)
	if err != nil {
		return scored{}, err
	}
	j := e.measured(x, program)
	j.reason, j.Outcome = validateCode, shard.OutcomeWrong
	trouble := ""
	switch {
	case x.End == sandbox.OverTime:
		trouble = fmt.Sprintf("The program was stopped after %v, and had not failed so far.", wall)
	case x.End != sandbox.Exited || x.ExitCode != 0:
		trouble = ended(x, wall)
	}
	j.Feedback = e.feedback(x.output, trouble)
	e.unscored(&j.TurnVerdict)
	return j, nil
}

// info answers request_info in full (MLE-RL App. B).
func (e *Env) info(t *task.Task, kind string) string {
	sections := []struct{ kind, text string }{
		{"overview", t.Description},
		{"sample_submission", t.Sample},
		{"data_structure", t.Preview},
		{"data_path", "./input"},
		{"output_path", "./submission.csv"},
		{"name", t.Name},
		{"metadata", fmt.Sprintf("metric: %s (%s); data: %s; limits: %v seconds, %d MB of memory", t.Metric, t.Direction, t.Modality, e.settings.limits(t).WallSeconds, e.settings.limits(t).MemoryMB)},
	}
	var b strings.Builder
	for _, s := range sections {
		if kind == "all" {
			fmt.Fprintf(&b, "## %s\n%s\n\n", s.kind, strings.TrimSpace(s.text))
		} else if kind == s.kind {
			b.WriteString(s.text)
		}
	}
	return strings.TrimSpace(b.String())
}
