package report

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/samples"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// The page of training groups shows so many with the lowest reward. All shards of an
// iteration are read for it, which takes a moment for up to so many.
const (
	groupsShown = 5
	mostShards  = 64
)

// groupsName is the page's name beside the report.
const groupsName = "samples.html"

// groups says which iteration to look at and why, and links to the page of its groups.
type groups struct {
	Iteration int
	Why       string // in words, without its full stop
	Page      string // its name; empty without one
	Link      string // what the page shows
	Fault     string // why there is no page, where one was tried
}

// lookAt chooses the finished iteration in which the mean reward fell most, and where it
// never fell the newest one; fell is false for that. 0 stands for none.
func lookAt(s Summary) (iteration int, why string, fell bool) {
	var before *Iteration
	most := 0.0
	for i := range s.Series {
		it := &s.Series[i]
		if it.RewardMean == nil || it.Iteration > s.IterationsDone {
			continue
		}
		if before != nil && *before.RewardMean-*it.RewardMean > most {
			most = *before.RewardMean - *it.RewardMean
			iteration, why = it.Iteration, fmt.Sprintf("the mean reward fell most in iteration %d, from %.3g to %.3g", it.Iteration, *before.RewardMean, *it.RewardMean)
		}
		before = it
	}
	switch {
	case iteration > 0:
		return iteration, why, true
	case before != nil:
		return before.Iteration, fmt.Sprintf("the mean reward fell in no iteration; the newest is %d", before.Iteration), false
	}
	return 0, "", false
}

// writeGroups writes the page of the groups to look at, beside the report; nil without a
// finished iteration. A run whose responses cannot be read has a report all the same,
// which says why it has no such page.
func writeGroups(ctx context.Context, r *rundir.Run, s Summary, folder string, attempt seal.Attempt) (*groups, error) {
	iteration, why, _ := lookAt(s)
	if iteration == 0 {
		return nil, nil
	}
	g := &groups{Iteration: iteration, Why: capitalised(why)}
	if r.Recipe.Rollout.Shards > mostShards {
		return g, nil
	}
	found, err := samples.Read(ctx, r, iteration)
	if err == nil {
		err = samples.Sort(found, samples.ByReward)
	}
	if err != nil {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g.Fault = err.Error()
		return g, nil
	}
	found = found[:min(groupsShown, len(found))]
	content, err := samples.Page(fmt.Sprintf("%s, iteration %d: lowest rewards", r.Identity.RunID, iteration), samples.AdvantageNote(r.Recipe.Advantage.AdvantageSettings), found)
	if err != nil {
		return nil, err
	}
	g.Page, g.Link = groupsName, plural.Count(len(found), "prompt")+" with the lowest reward, response by response"
	return g, seal.Replace(filepath.Join(folder, groupsName), content, attempt)
}
