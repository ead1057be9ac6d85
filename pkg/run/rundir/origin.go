package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// Origin is the policy version of another run that a run starts from.
type Origin struct {
	Run             string  `json:"run"` // its folder
	RunID           string  `json:"run_id"`
	Version         int     `json:"version"`
	PolicySHA256    string  `json:"policy_sha256"`              // digests of contents
	OptimizerSHA256 string  `json:"optimizer_sha256,omitempty"` // empty where the optimizer starts fresh
	StateSHA256     string  `json:"state_sha256,omitempty"`     // of the curriculum's entries; empty where it starts fresh
	From            *Origin `json:"from,omitempty"`             // what that run started from
}

func (o *Origin) String() string {
	with := []string{"policy"}
	if o.OptimizerSHA256 != "" {
		with = append(with, "optimizer state")
	}
	if o.StateSHA256 != "" {
		with = append(with, "curriculum state")
	}
	return fmt.Sprintf("started from v%06d of %s (%s): %s", o.Version, o.Run, o.RunID, strings.Join(with, ", "))
}

// VersionOf says which policy version of which run a folder is, by its path.
func VersionOf(policy string) (run graph.Dir, version int, ok bool) {
	policy = filepath.Clean(policy)
	number, named := strings.CutPrefix(filepath.Base(policy), "v")
	version, err := strconv.Atoi(number)
	run = graph.Dir(filepath.Dir(filepath.Dir(policy)))
	return run, version, named && err == nil && run.Policy(version) == policy
}

// ParseVersion reads RUN@v000100, or RUN for its last version, and gives the folder of the
// policy.
func ParseVersion(ctx context.Context, text string) (string, error) {
	folder, name := text, ""
	if at := strings.LastIndex(text, "@"); at >= 0 {
		folder, name = text[:at], text[at+1:]
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	r, err := Open(ctx, graph.Dir(absolute))
	if err != nil {
		return "", fmt.Errorf("--from: %w", err)
	}
	last := r.Recipe.Schedule.Iterations
	version := last
	if folder != text {
		if version, err = strconv.Atoi(strings.TrimPrefix(name, "v")); err != nil || version < 0 || version > last {
			return "", exitcode.Usagef("--from: got version %q, and run %q has versions v%06d to v%06d", name, folder, 0, last)
		}
	}
	path := r.Dir.Policy(version)
	_, err = seal.Read(ctx, path, r.Graph.Reading(0))
	if !errors.Is(err, seal.ErrNotSealed) {
		return path, err
	}
	if _, err := seal.ReadPruned(path); err == nil {
		return "", exitcode.WithHint(exitcode.Dataf("--from: version v%06d of run %q was pruned", version, folder),
			"make it again: lathe prune %s --restore %d, then lathe run %s; or take a version that is kept: ls %s", folder, version, folder, filepath.Dir(path))
	}
	return "", exitcode.WithHint(exitcode.Dataf("--from: run %q has not made version v%06d yet", folder, version), "ls %s shows what it has", filepath.Dir(path))
}

// findOrigin says which version of which run the policy is, if it is one, and pins what
// is taken over from that run.
func (d *draft) findOrigin(ctx context.Context) error {
	start, source := d.resolved.Recipe.Start, d.identity.PolicySource
	if source == "" {
		return nil
	}
	dir, version, ok := VersionOf(source)
	if ok {
		_, err := os.Stat(dir.Identity())
		ok = err == nil
	}
	if !ok {
		if start.KeepsOptimizer() || start.KeepsCurriculum() {
			return exitcode.Usagef("start: policy.path %q is not a policy version of a run, of which an optimizer or a curriculum could be kept", source)
		}
		return nil
	}
	parent, err := Open(ctx, dir)
	if err != nil {
		return fmt.Errorf("opening the run that policy.path is of: %w", err)
	}
	reading := parent.Graph.Reading(0)
	m, err := seal.Read(ctx, source, reading)
	if err != nil {
		return fmt.Errorf("policy.path: %w", err)
	}
	o := &Origin{Run: string(dir), RunID: parent.Identity.RunID, Version: version, PolicySHA256: m.ContentSHA256, From: parent.Identity.Origin}
	if start.KeepsOptimizer() {
		if err := d.sameOptimizer(parent); err != nil {
			return err
		}
		m, err := seal.Read(ctx, dir.Optimizer(version), reading)
		if errors.Is(err, seal.ErrNotSealed) {
			return exitcode.WithHint(exitcode.Dataf("start.optimizer: run %q has no optimizer state of version %d", dir, version), "a warm start leaves no optimizer state, and lathe prune removes that of versions it does not keep; to begin without: --set start.optimizer=fresh")
		}
		if err != nil {
			return fmt.Errorf("start.optimizer: %w", err)
		}
		o.OptimizerSHA256 = m.ContentSHA256
	}
	d.identity.Origin = o
	if start.KeepsCurriculum() {
		if d.inherited, err = readInherited(ctx, parent, version); err != nil {
			return fmt.Errorf("start.curriculum: %w", err)
		}
		o.StateSHA256 = d.inherited.cited[0].ContentSHA256
	}
	return nil
}

// sameOptimizer refuses the state of an optimizer of other numbers.
func (d *draft) sameOptimizer(parent *Run) error {
	was, is := parent.Recipe, d.resolved.Recipe
	fresh := "to begin without: --set start.optimizer=fresh"
	switch {
	case was.Policy.LoRA != nil:
		return exitcode.WithHint(exitcode.Usagef("start.optimizer: the optimizer state of run %q is of an adapter, which a new run does not continue", parent.Dir), "%s", fresh)
	case was.Policy.Critic != is.Policy.Critic:
		return exitcode.WithHint(exitcode.Usagef("start.optimizer: run %q was trained with policy.critic %s, and this one has %s", parent.Dir, was.Policy.Critic, is.Policy.Critic), "%s", fresh)
	case was.Optimizer.State != is.Optimizer.State:
		return exitcode.WithHint(exitcode.Usagef("start.optimizer: run %q has optimizer.state %s, and this one has %s", parent.Dir, was.Optimizer.State, is.Optimizer.State), "%s", fresh)
	}
	return nil
}
