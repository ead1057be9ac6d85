package rundir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/lazyregexp"
	"github.com/lathe-rl/lathe/pkg/plainfile"
	"github.com/lathe-rl/lathe/pkg/recipe"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/stage/learn"
	"github.com/lathe-rl/lathe/pkg/stage/promptroom"
	"github.com/lathe-rl/lathe/pkg/stage/warm"
)

// Create makes the folder of a run, or opens it when it is there with the
// same recipe. A run with another recipe is refused: its name is taken. So is
// a folder that holds files of others where a run has its own.
func Create(ctx context.Context, dir graph.Dir, resolved *recipe.Resolved, attempt seal.Attempt, version string) (*Run, error) {
	return CreateWithScores(ctx, dir, resolved, "", attempt, version)
}

// CreateWithScores is Create of a run that takes the scores of another run, which scores
// alike, where it comes to the same responses. scores is that run's folder; empty for
// none.
func CreateWithScores(ctx context.Context, dir graph.Dir, resolved *recipe.Resolved, scores string, attempt seal.Attempt, version string) (*Run, error) {
	d, err := prepare(ctx, dir, resolved)
	if err != nil {
		return nil, err
	}
	if scores != "" {
		if err := d.takeScores(ctx, scores); err != nil {
			return nil, err
		}
	}
	if d.existing != nil {
		return d.existing, nil
	}
	if err := d.write(ctx, attempt, version); err != nil {
		return nil, err
	}
	made, err := Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	made.Notes = d.notes
	return made, nil
}

// Rehearse refuses what Create refuses, and writes nothing. It gives what the run's notes
// would be.
func Rehearse(ctx context.Context, dir graph.Dir, resolved *recipe.Resolved) (notes []string, err error) {
	d, err := prepare(ctx, dir, resolved)
	if err != nil {
		return nil, err
	}
	return d.notes, nil
}

// draft is a run that is about to be made: what is known of it before its
// first byte is written.
type draft struct {
	dir         graph.Dir
	resolved    *recipe.Resolved
	existing    *Run   // the run is there
	recipeLost  bool   // it is there, without its recipe
	named       string // id of the run that recipe or tasks without a run.json are of
	identity    Identity
	inherited   *inherited // of the run that the policy is of; nil for nothing
	environment env.Env
	tasks       []shard.TaskRow
	notes       []string
}

// prepare finds out all that can speak against making a run, or resuming
// the one that is there.
func prepare(ctx context.Context, dir graph.Dir, resolved *recipe.Resolved) (*draft, error) {
	d := &draft{dir: dir, resolved: resolved}
	existing, err := Open(ctx, dir)
	switch {
	case err == nil:
		if d.existing = existing; resolved.Recipe.Schedule.ApplyShards == recipe.ApplyAuto {
			resolved.Settle(existing.Recipe.Schedule.ApplyShards)
		}
		return d, existing.sameRecipe(resolved)
	case !errors.Is(err, seal.ErrNotSealed):
		return nil, err
	}
	if err := d.settle(); err != nil {
		return nil, err
	}
	err = d.halfMade(ctx)
	if err == nil {
		err = refuseUntracked(ctx, dir.Recipe(), func() ([]byte, error) { return resolved.YAML, nil })
	}
	if err != nil || d.recipeLost {
		return d, err
	}
	if err := d.identify(); err != nil {
		return nil, err
	}
	if err := d.findOrigin(ctx); err != nil {
		return nil, err
	}
	if err := d.pinPool(ctx); err != nil {
		return nil, err
	}
	if err := d.pinTeacher(ctx); err != nil {
		return nil, err
	}
	if err := d.readTasks(); err != nil {
		return nil, err
	}
	if c := resolved.Recipe.Curriculum; d.inherited != nil {
		if err := d.inherited.check(c.Name, d.environment, c.Kinds); err != nil {
			return nil, err
		}
	}
	if err := refuseUntracked(ctx, dir.Tasks(), func() ([]byte, error) { return shard.Encode(d.tasks, nil) }); err != nil {
		return nil, err
	}
	return d, d.resume(ctx)
}

// settle finds how many tasks apply gradients, where the recipe leaves that open.
func (d *draft) settle() error {
	r := d.resolved.Recipe
	if r.Schedule.ApplyShards != recipe.ApplyAuto {
		return nil
	}
	folder, err := r.Policy.Resolve(filepath.Dir(d.resolved.Path))
	if err == nil && folder != "" {
		err = checkPolicyFolder("policy.path", folder)
	}
	if err == nil {
		err = SettleApplyShards(&r, folder)
	}
	if err != nil {
		return fmt.Errorf("schedule.apply_shards auto: %w", err)
	}
	d.resolved.Settle(r.Schedule.ApplyShards)
	return nil
}

// identify says who the run is, and where its policy comes from.
func (d *draft) identify() error {
	r := d.resolved.Recipe
	id := make([]byte, 4)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Dir(d.resolved.Path))
	if err != nil {
		return err
	}
	d.identity = Identity{
		FormatVersion: FormatVersion, RunID: cmp.Or(d.named, notInJobName().ReplaceAllString(r.Name, "-")+"-"+hex.EncodeToString(id)), Name: r.Name,
		Seed: r.Seed, RecipeSHA256: d.resolved.SHA256, RecipeFolder: folder, Data: []DataFile{}, Created: time.Now().UTC(),
	}
	if r.Policy.Path == "" {
		return nil
	}
	if d.identity.PolicySource, err = r.Policy.Resolve(folder); err != nil {
		return err
	}
	return checkPolicyFolder("policy.path", d.identity.PolicySource)
}

// checkPolicyFolder refuses what a field names if it is no policy that can be read.
func checkPolicyFolder(field, folder string) error {
	if err := checkpoint.CheckFolder(folder); err != nil {
		return exitcode.Usagef("%s: %w", field, err)
	}
	if _, err := checkpoint.LoadConfig(folder); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// pinPool says what the warm start learns from.
func (d *draft) pinPool(ctx context.Context) error {
	path, err := d.resolved.Recipe.WarmStart.ResolvePool(d.identity.RecipeFolder)
	if path == "" || err != nil {
		return err
	}
	m, err := warm.CheckPool(ctx, path, d.identity.PolicySource, seal.Options{})
	if err != nil {
		return fmt.Errorf("warm_start.pool: %w", err)
	}
	d.identity.Pool = &DataFile{Path: path, SHA256: m.ContentSHA256}
	return nil
}

// pinTeacher says which folder teaches.
func (d *draft) pinTeacher(ctx context.Context) error {
	path, err := d.resolved.Recipe.ResolveTeacher(d.identity.RecipeFolder)
	if path == "" || err != nil {
		return err
	}
	const field = "advantage.teacher.path"
	if adapter, err := checkpoint.IsAdapter(path); err == nil && adapter {
		return exitcode.WithHint(exitcode.Usagef("%s: %q is an adapter", field, path), "make one policy of adapter and base: lathe policy merge --model %s --out FOLDER", path)
	}
	if err := checkPolicyFolder(field, path); err != nil {
		return err
	}
	d.identity.Teacher = &DataFile{Path: path}
	d.identity.Teacher.SHA256, err = seal.ContentSHA256(ctx, path)
	return err
}

// takeScores names the run whose scores are taken.
func (d *draft) takeScores(ctx context.Context, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	from, err := ReadGraph(ctx, graph.Dir(folder))
	if err != nil {
		return fmt.Errorf("opening the run whose scores are to be taken: %w", err)
	}
	if judging(from.Recipe) != judging(d.resolved.Recipe) {
		return exitcode.WithHint(exitcode.Usagef("run %q scores responses differently: its recipe has other settings of env or score", folder), "they are in %s/recipe.yaml", folder)
	}
	if d.existing != nil && d.existing.Identity.Scores != folder {
		return exitcode.WithHint(exitcode.Usagef("run %q was made without the scores of %q", d.dir, folder), "choose another --run folder: whose scores are taken is said when a run is made")
	}
	d.identity.Scores = folder
	return nil
}

// judging is what scores depend on, beside the tasks and the responses.
func judging(r recipe.Recipe) string {
	return string(recipe.Write(&recipe.Recipe{Env: r.Env, Score: r.Score}))
}

// readTasks reads and draws the tasks of the run.
func (d *draft) readTasks() error {
	r := &d.resolved.Recipe
	environment, err := r.NewEnv(d.identity.RecipeFolder)
	if err != nil {
		return err
	}
	for _, input := range environment.Set().Inputs {
		d.identity.Data = append(d.identity.Data, DataFile{Path: input.Path, SHA256: input.SHA256})
	}
	d.notes = slices.Clone(environment.Set().Notes)
	d.identity.DataLeftOut, d.identity.DataLeftOutNames = environment.Set().LeftOut, environment.Set().LeftOutNames
	if err := r.Evaluation.CheckTasks(environment); err != nil {
		return err
	}
	if _, err := environment.Set().TrainingTasks("curriculum.kinds", r.Curriculum.Kinds); err != nil {
		return err
	}
	if err := warm.CheckDemonstrations(environment, warm.SettingsOf(*r)); err != nil {
		return err
	}
	files, err := warm.CheckData(warm.SettingsOf(*r), environment, d.identity.PolicySource, d.identity.RecipeFolder)
	if err != nil {
		return err
	}
	for _, file := range files {
		d.identity.WarmStartData = append(d.identity.WarmStartData, DataFile{Path: file.Path, SHA256: file.SHA256})
	}
	if err := d.tryPrompts(environment); err != nil {
		return err
	}
	d.environment, d.tasks = environment, environment.Set().Rows()
	return nil
}

// tryPrompts looks for prompts that leave the policy no room. What a server makes of them
// is not known.
func (d *draft) tryPrompts(environment env.Env) error {
	r := d.resolved.Recipe
	var p promptroom.Policy
	var err error
	p.Chat, p.Positions, err = warm.Chat(r.Policy, environment, d.identity.PolicySource)
	switch {
	case err != nil && d.identity.PolicySource != "":
		return fmt.Errorf("policy.path: %w", err)
	case err != nil || p.Chat == nil:
		return err
	}
	if teacher := d.identity.Teacher; teacher != nil {
		if err := learn.CheckTeacher(p.Chat, teacher.Path); err != nil {
			return err
		}
	}
	if turn := chat.RewritesTurn(p.Chat); turn > 0 && r.Rollout.Thinking == recipe.ThinkingRefuse && environment.Traits().Turns > 1 {
		return exitcode.WithHint(exitcode.Usagef("the chat template of %q rewrites what the policy said in turn %d once more messages follow, such as its thinking, so that the policy would be trained on contexts that it is never shown elsewhere", d.identity.PolicySource, turn),
			"say what stays: --set rollout.thinking=keep (all tokens, whatever the template shows) or --set rollout.thinking=drop (answers alone; each turn begins a new context)")
	}
	bounded := promptroom.Policy{Chat: p.Chat, Positions: r.Rollout.Context(p.Positions)}
	uses, err := promptroom.Look(promptroom.SettingsOf(r), environment, bounded)
	if err != nil {
		return err
	}
	d.notes = append(d.notes, promptroom.Notes(uses, bounded.Positions)...)
	if err := promptroom.Refuse(uses, bounded.Positions); err != nil {
		return err
	}
	return promptroom.Demonstrations(r.WarmStart, r.Seed, environment, p)
}

// refuseUntracked refuses a file without a manifest in the place of one of a run's: it is
// somebody else's, and would be lost. What a killed command left between a
// file and its manifest is the very bytes that are to be written.
func refuseUntracked(ctx context.Context, path string, content func() ([]byte, error)) error {
	_, err := seal.Read(ctx, path, seal.Options{})
	if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	f, _, err := plainfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return untracked(path)
	}
	defer f.Close()
	want, err := content()
	if err != nil {
		return err
	}
	// One byte more shows a file that is longer.
	left, err := io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	if err != nil || !bytes.Equal(left, want) {
		return untracked(path)
	}
	return nil
}

// untracked is the refusal to replace a file that is not of a run.
func untracked(path string) error {
	return exitcode.WithHint(exitcode.Usagef("%q is there without a manifest: it is not of a run, which would take its place", path),
		"choose another --run folder, or move the file away")
}

// resume looks for the run.json that a command left which was killed before it
// sealed it. No two have the same bytes, so the recipe's digest says whose it
// is. The run is then the one that it names.
func (d *draft) resume(ctx context.Context) error {
	path := d.dir.Identity()
	_, err := seal.Read(ctx, path, seal.Options{})
	if !errors.Is(err, seal.ErrNotSealed) {
		return err
	}
	text, err := plainfile.Read(path, plainfile.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var left Identity
	if err != nil || json.Unmarshal(text, &left) != nil || left.RunID == "" || left.RecipeSHA256 != d.resolved.SHA256 {
		return untracked(path)
	}
	d.identity.RunID, d.identity.Created, d.identity.Host, d.identity.BinaryVersion = left.RunID, left.Created, left.Host, left.BinaryVersion
	return nil
}

// write seals the files of the run.
func (d *draft) write(ctx context.Context, attempt seal.Attempt, version string) error {
	manifest := createManifest(d.identity, version)
	if _, err := seal.WriteBytes(d.dir.Recipe(), d.resolved.YAML, attempt, manifest); err != nil || d.recipeLost {
		return err
	}
	var err error
	if d.identity.TasksSHA256, err = sealTasks(ctx, d.dir, d.environment, d.tasks, attempt, manifest); err != nil {
		return err
	}
	if d.inherited != nil {
		if err := d.inherited.seal(d.dir, attempt, manifest); err != nil {
			return err
		}
	}
	if d.identity.BinaryVersion == "" {
		d.identity.BinaryVersion, d.identity.Host = version, attempt.Host
	}
	// run.json comes last: with it the run exists.
	_, err = seal.WriteJSON(d.dir.Identity(), d.identity, attempt, manifest)
	return err
}

// halfMade looks at a folder that has run.json or recipe.yaml and not both: a
// run whose making was killed, or that lost a file. Neither half may become
// part of a run of another recipe. With run.json, only the recipe has to be put
// back; without it, the run is still the one that its other files name.
func (d *draft) halfMade(ctx context.Context) error {
	var identity Identity
	_, err := seal.ReadJSON(ctx, d.dir.Identity(), seal.Options{}, &identity)
	switch {
	case err == nil && identity.RecipeSHA256 != d.resolved.SHA256:
		return exitcode.WithHint(exitcode.Usagef("run %q was made from another recipe, and its own recipe.yaml is lost", d.dir),
			"choose another --run folder, or name the recipe and the settings that it was made with")
	case err == nil:
		d.recipeLost, d.identity = true, identity
		return nil
	case !errors.Is(err, seal.ErrNotSealed):
		return wayBack(d.dir, d.dir.Identity(), err)
	}
	content, m, err := seal.OpenDocument(ctx, d.dir.Recipe(), seal.Options{})
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		if m, err = seal.Read(ctx, d.dir.Tasks(), seal.Options{}); err == nil && m.RecipeSHA256 == d.resolved.SHA256 {
			d.named = m.Run
		}
		return nil
	case err != nil:
		return wayBack(d.dir, d.dir.Recipe(), err)
	}
	d.named = m.Run
	was := &Run{Dir: d.dir, RecipeBytes: content}
	return was.sameRecipe(d.resolved)
}

// notInJobName is what a job name may not hold.
var notInJobName = lazyregexp.New(`[^a-zA-Z0-9_-]`)

// SettleApplyShards gives schedule.apply_shards auto its number, for the policy in a folder
// that a run starts from; empty where the run makes its own.
func SettleApplyShards(r *recipe.Recipe, folder string) error {
	if r.Schedule.ApplyShards != recipe.ApplyAuto {
		return nil
	}
	if folder == "" || r.Policy.LoRA != nil {
		r.SettleApplyShards(0, 1)
		return nil
	}
	p, err := learn.PartsOf(learn.SettingsOf(*r), folder)
	if err != nil {
		return err
	}
	r.SettleApplyShards(p.Bytes, len(p.Files))
	return nil
}
