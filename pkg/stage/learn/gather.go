package learn

import (
	"context"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/checkpoint"
	"github.com/lathe-rl/lathe/pkg/policy"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/stage"
)

// RunGather seals what the tasks of RunApply made, in.Parts, as a policy and what goes
// with it. Files keep their bytes and, where the file system has links, take no room
// twice; they are read once, when the folders are sealed.
func RunGather(ctx context.Context, job stage.Job, s Settings, in Inputs) (seal.Manifest, error) {
	started := time.Now()
	u, err := openUpdate(job, s, in)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer u.close()
	_, _, stats, err := u.openSums(ctx, -1)
	if err != nil {
		return seal.Manifest{}, err
	}
	l := &learner{Settings: s, files: job.Files, in: in}
	if err := l.adaptEntropy(ctx); err != nil {
		return seal.Manifest{}, err
	}
	batch, err := seal.Read(ctx, in.Batch, job.Reading)
	if err != nil {
		return seal.Manifest{}, err
	}
	parts := make([]seal.Manifest, len(in.Parts))
	for i, path := range in.Parts {
		if parts[i], err = seal.Read(ctx, path, job.Reading); err != nil {
			return seal.Manifest{}, err
		}
		u.cited = append(u.cited, job.Input(path, parts[i]))
	}
	l.cited = append(u.cited, job.Input(in.Batch, batch))
	var totals totals
	totals.add(stats)
	m, err := l.manifest(job, started, totals, stats.entropy())
	if err != nil {
		return seal.Manifest{}, err
	}
	if err := m.Note("engine", policy.Arithmetic{Backend: "cpu"}); err != nil {
		return seal.Manifest{}, err
	}
	g := gatherer{in.Parts, parts, job.Attempt, m}
	none := func(string) error { return nil }
	for i := len(u.models) - 1; i >= 0; i-- { // the policy is the last, as its seal says that all is there
		one := u.models[i]
		if _, err := g.gather(one.output+partState, optimizerOf(in, i), none); err != nil {
			return seal.Manifest{}, err
		}
		if i > 0 {
			if _, err := g.gather(one.output, one.rest, u.writeRest(one, one.rest)); err != nil {
				return seal.Manifest{}, err
			}
		}
	}
	if in.ReferenceOutput != "" {
		reference, err := checkpoint.OpenParts(in.Reference, false)
		if err != nil {
			return seal.Manifest{}, err
		}
		defer reference.Close()
		rest := func(folder string) error { return reference.WriteRest(folder, "") }
		if _, err := g.gather(partReference, in.ReferenceOutput, rest); err != nil {
			return seal.Manifest{}, err
		}
	}
	return g.gather(partPolicy, u.models[0].rest, u.writeRest(u.models[0], u.models[0].rest))
}

// optimizerOf is where the optimizer's state of model number i goes.
func optimizerOf(in Inputs, i int) string {
	if i == 1 {
		return in.CriticOptimizerOutput
	}
	return in.OptimizerOutput
}

// gatherer seals folders of files of parts.
type gatherer struct {
	paths    []string
	parts    []seal.Manifest
	attempt  seal.Attempt
	manifest seal.Manifest
}

// gather seals a folder of the files that the parts have in a folder of theirs, and of
// what rest writes into it.
func (g gatherer) gather(from, to string, rest func(folder string) error) (seal.Manifest, error) {
	folder, err := seal.CreateFolder(to, g.attempt)
	if err != nil {
		return seal.Manifest{}, err
	}
	defer folder.Abort()
	for i, part := range g.parts {
		for _, f := range part.Files {
			name, inside := strings.CutPrefix(f.Name, from+"/")
			if !inside {
				continue
			}
			if err := folder.AdoptSealed(name, g.paths[i], f); err != nil {
				return seal.Manifest{}, err
			}
		}
	}
	if err := rest(folder.Path()); err != nil {
		return seal.Manifest{}, err
	}
	return folder.Commit(g.manifest)
}
