package survey

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/run/closing"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/seal"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// readsAtATime is how many tasks' manifests are read at a time: a file server takes long to
// answer, and no longer to answer many.
const readsAtATime = 32

// Inventory knows what of a run is sealed. It lists each folder once and reads
// each manifest once: what is sealed stays so, and what is missing is looked for
// again only after [Inventory.Refresh]. A folder that its parent does not list is
// not looked into, so iterations that have not begun cost nothing.
type Inventory struct {
	graph.Graph
	waves      map[graph.Stage]int // that there can be
	arrays     map[graph.Node]*array
	folders    map[string]map[string]bool // names by folder; nil for a folder that is not there
	closings   closing.History
	late       outstanding
	beginnings map[int]time.Time // of iterations' rollouts
	mutex      sync.Mutex        // guards the next two
	sandboxes  map[string]bool   // that programs of sealed scores ran under
	room       map[graph.Stage]shard.Room
	told       bool // what is sealed is told: there are no files
}

// array is what is sealed of a node's tasks.
type array struct {
	total  int
	count  int     // of sealed
	shards []state // nil as long as none is sealed
	looked bool    // since the last refresh
}

// state is what is known of a shard.
type state uint8

const (
	missing state = iota
	sealed
	goingOn // sealed scores of which some trace goes on in the next wave
)

func (a *array) done() bool { return a.count == a.total }

func (a *array) is(shard int) bool { return a.shards != nil && a.shards[shard] != missing }

// goesOn reports whether a score shard is sealed and has traces that go on in
// the next wave.
func (a *array) goesOn(shard int) bool { return a.shards != nil && a.shards[shard] == goingOn }

func (a *array) mark(shard int, now state) {
	if now == missing {
		return
	}
	if a.shards == nil {
		a.shards = make([]state, a.total)
	}
	if a.shards[shard] == missing {
		a.count++
	}
	a.shards[shard] = now
}

// NewInventory returns an inventory that has not looked at anything yet.
func NewInventory(g graph.Graph) *Inventory {
	v := &Inventory{
		Graph: g, waves: map[graph.Stage]int{}, arrays: map[graph.Node]*array{}, folders: map[string]map[string]bool{}, closings: closing.History{}, beginnings: map[int]time.Time{}, sandboxes: map[string]bool{}, room: map[graph.Stage]shard.Room{},
	}
	for _, stage := range graph.Stages() {
		v.waves[stage] = g.Waves(stage)
	}
	return v
}

// NewTold returns an inventory that looks at no file: what is sealed it is told by
// [Inventory.Tell] and [Inventory.TellClosing]. So a run can be planned that is not
// there, by the rules of one that is.
func NewTold(g graph.Graph) *Inventory {
	v := NewInventory(g)
	v.told = true
	return v
}

// Tell has it that a task's outputs are sealed, and, of scores, whether some trace
// goes on in the next wave.
func (v *Inventory) Tell(t graph.Task, more bool) {
	now := sealed
	if more && t.Wave+1 < v.waves[t.Stage] {
		now = goingOn
	}
	v.arrayOf(t.Node).mark(t.Shard, now)
}

// TellClosing has it that an iteration is closed.
func (v *Inventory) TellClosing(c closing.Closing) {
	v.closings[c.Iteration] = c
	v.arrayOf(graph.Node{Stage: graph.StageClose, Iteration: c.Iteration}).mark(0, sealed)
}

// Refresh forgets what was missing, so that it is looked for again.
func (v *Inventory) Refresh() {
	clear(v.folders)
	for n, a := range v.arrays {
		if a.looked = false; a.count == 0 {
			delete(v.arrays, n)
		}
	}
}

// Forget forgets that the outputs of a node were sealed: they were removed.
func (v *Inventory) Forget(n graph.Node) {
	delete(v.arrays, n)
	clear(v.folders)
}

// Sealed reports whether every output of a task is sealed.
func (v *Inventory) Sealed(ctx context.Context, t graph.Task) (bool, error) {
	a, err := v.array(ctx, t.Node)
	return err == nil && a.is(t.Shard), err
}

// Done reports whether every task of a node is known to be sealed.
func (v *Inventory) Done(n graph.Node) bool { return v.arrays[n] != nil && v.arrays[n].done() }

// Recheck is [Inventory.Sealed] for a task that has just ended on this host: it
// opens its manifests whatever was known of them.
func (v *Inventory) Recheck(ctx context.Context, t graph.Task) (bool, error) {
	a, err := v.array(ctx, t.Node)
	if err != nil || a.is(t.Shard) {
		return err == nil, err
	}
	now, err := v.read(ctx, t)
	a.mark(t.Shard, now)
	return now != missing, err
}

// Await waits until the outputs of tasks that ended well on other nodes show
// here, for each until its time has come. It lists each folder once between two
// pauses.
func (v *Inventory) Await(ctx context.Context, until map[graph.Task]time.Time) error {
	const firstPause, longestPause = 20 * time.Millisecond, time.Second
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		now := time.Now()
		for t, last := range until {
			sealed, err := v.Sealed(ctx, t)
			if err != nil {
				return err
			}
			if sealed || now.After(last) {
				delete(until, t)
			}
		}
		if len(until) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		v.Refresh()
	}
}

// Exists reports whether a task is one of the run: in a later wave a shard has
// one only if something in it goes on from the wave before.
func (v *Inventory) Exists(ctx context.Context, t graph.Task) (bool, error) {
	if t.Wave == 0 {
		return true, nil
	}
	before, err := v.array(ctx, t.InWave(t.Wave-1).Judging())
	return err == nil && before.goesOn(t.Shard), err
}

// Made reports whether every output of a task is sealed, or was until it was
// pruned.
func (v *Inventory) Made(ctx context.Context, t graph.Task) (bool, error) {
	return v.sealedOr(ctx, t, func(string) bool { return true })
}

// Settled reports whether a submission's task has done its work: its outputs
// are sealed, or were after it was submitted, and have been pruned since. A
// task that makes a pruned output again was submitted later.
func (v *Inventory) Settled(ctx context.Context, t graph.Task, submitted time.Time) (bool, error) {
	return v.sealedOr(ctx, t, func(path string) bool {
		was, err := seal.ReadPruned(path)
		return err == nil && !was.Ended.Before(submitted)
	})
}

// sealedOr reports whether a task's outputs are sealed, or all that pruning may
// remove of them has been pruned, and counts.
func (v *Inventory) sealedOr(ctx context.Context, t graph.Task, counts func(path string) bool) (bool, error) {
	paths := v.Prunable(t)
	for _, path := range paths {
		if pruned, err := v.listed(seal.PrunedPath(path)); err != nil {
			return false, err
		} else if !pruned || !counts(path) {
			return v.Sealed(ctx, t)
		}
	}
	if len(paths) == 0 {
		return v.Sealed(ctx, t)
	}
	return true, nil
}

// Closing returns the closing of iteration k, if it is sealed.
func (v *Inventory) Closing(ctx context.Context, k int) (c closing.Closing, known bool, err error) {
	if c, known = v.closings[k]; known {
		return c, true, nil
	}
	sealed, err := v.Sealed(ctx, graph.Task{Node: graph.Node{Stage: graph.StageClose, Iteration: k}})
	if err != nil || !sealed {
		return c, false, err
	}
	c, err = closing.Read(ctx, v.Dir, k, v.Reading(0))
	switch {
	case errors.Is(err, seal.ErrNotSealed):
		return c, false, nil // removed since it was seen
	case err != nil:
		return c, false, err
	}
	v.closings[k] = c
	return c, true, nil
}

// Closed is the number of iterations before k that are closed, counted from the
// first to the one before the first that is not.
func (v *Inventory) Closed(ctx context.Context, k int) (int, error) {
	for i := 1; i < k; i++ {
		if _, known, err := v.Closing(ctx, i); err != nil || !known {
			return i - 1, err
		}
	}
	return max(0, k-1), nil
}

// arrayOf is what is known of a node's outputs.
func (v *Inventory) arrayOf(n graph.Node) *array {
	a := v.arrays[n]
	if a == nil {
		a = &array{total: v.Shards(n)}
		v.arrays[n] = a
	}
	return a
}

// outstanding are the late shards that no iteration before one has carried.
type outstanding struct {
	before int // that iteration; there is no closing 0
	refs   []closing.Ref
}

// outstandingBefore lists the late shards that no iteration before k has carried, all
// of which are closed. It goes on from what it said last.
func (v *Inventory) outstandingBefore(k int) []closing.Ref {
	if v.late.before > k {
		v.late = outstanding{}
	}
	for ; v.late.before < k; v.late.before++ {
		v.late.refs = v.closings[v.late.before].Outstanding(v.late.refs)
	}
	return v.late.refs
}

// array looks at the outputs of a node.
func (v *Inventory) array(ctx context.Context, n graph.Node) (*array, error) {
	a := v.arrayOf(n)
	if a.looked || a.done() || v.told {
		return a, nil
	}
	outputs := v.Outputs(graph.Task{Node: n})
	if len(outputs) == 0 { // a controller job leaves none
		return a, nil
	}
	// The shards of a node lie in one folder.
	folder, err := v.list(filepath.Dir(outputs[0]))
	if err != nil {
		return a, err
	}
	var listed []graph.Task
	for shard := 0; folder != nil && shard < a.total; shard++ {
		t := graph.Task{Node: n, Shard: shard}
		if a.is(shard) {
			continue
		}
		if there, err := v.manifestsListed(t); err != nil {
			return a, err
		} else if there {
			listed = append(listed, t)
		}
	}
	found, errs := make([]state, len(listed)), make([]error, len(listed))
	var group errgroup.Group
	group.SetLimit(readsAtATime)
	for i, t := range listed {
		group.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				found[i], errs[i] = v.read(ctx, t)
			}
			return nil // that of the first shard is said, whichever was read first
		})
	}
	group.Wait()
	for i, t := range listed {
		if errs[i] != nil {
			return a, errs[i]
		}
		a.mark(t.Shard, found[i])
	}
	a.looked = true
	return a, nil
}

// manifestsListed reports whether the manifests of a task's outputs, or the packs that
// may hold them, are in their folders' listings.
func (v *Inventory) manifestsListed(t graph.Task) (bool, error) {
	for _, path := range v.Outputs(t) {
		there, err := v.listed(seal.ManifestPath(path))
		if pack, ok := seal.PackOf(path); ok && err == nil && !there {
			there, err = v.listed(seal.ManifestPath(pack))
		}
		if err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// read reads the manifests of a task's outputs.
func (v *Inventory) read(ctx context.Context, t graph.Task) (state, error) {
	now := sealed
	for _, path := range v.Outputs(t) {
		m, there, err := seal.Check(ctx, path, v.ReadingAs(t, 0))
		if err != nil || !there {
			return missing, err
		}
		v.note(t.Stage, m)
		if t.Judges() && m.Metrics[shard.MetricWaiting] > 0 {
			now = goingOn
		}
	}
	if bound := v.waves[t.Stage]; now == goingOn && t.Wave+1 >= bound {
		return missing, exitcode.Bugf("%q says that traces go on in wave %d; the environment and the scaffold promise %d waves", v.Outputs(t)[0], t.Wave+1, bound)
	}
	return now, nil
}

// note keeps what a manifest says that people are told: what programs ran under, and
// which responses had no room.
func (v *Inventory) note(stage graph.Stage, m seal.Manifest) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for under := range shard.Sandboxes(m.Usage) {
		v.sandboxes[under] = true
	}
	room := v.room[stage]
	room.Add(m.Metrics)
	v.room[stage] = room
}

// Room counts the responses of a stage whose manifests were looked at.
func (v *Inventory) Room(stage graph.Stage) shard.Room {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.room[stage]
}

// Sandboxes lists what the programs ran under whose scores were looked at.
func (v *Inventory) Sandboxes() []string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return slices.Sorted(maps.Keys(v.sandboxes))
}

// listed reports whether a path is in its folder's listing.
func (v *Inventory) listed(path string) (bool, error) {
	if v.told {
		return false, nil
	}
	names, err := v.list(filepath.Dir(path))
	return names[filepath.Base(path)], err
}

// list returns the names in a folder below the run; nil when it is not there.
func (v *Inventory) list(folder string) (map[string]bool, error) {
	if names, known := v.folders[folder]; known {
		return names, nil
	}
	if folder != filepath.Clean(string(v.Dir)) {
		if inside, err := v.listed(folder); err != nil || !inside {
			v.folders[folder] = nil
			return nil, err
		}
	}
	names, err := readNames(folder)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	v.folders[folder] = names
	return names, err
}

// readNames lists a folder. Unlike [os.ReadDir] it asks for nothing but names.
func readNames(folder string) (map[string]bool, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.Readdirnames(-1)
	names := make(map[string]bool, len(list))
	for _, name := range list {
		names[name] = true
	}
	return names, err
}

// Pruned reports whether everything that pruning may remove of a node has been
// removed by it.
func (v *Inventory) Pruned(n graph.Node) (bool, error) {
	for shard := range v.Shards(n) {
		for _, path := range v.Prunable(graph.Task{Node: n, Shard: shard}) {
			if there, err := v.listed(path); err != nil || there {
				return false, err
			}
			if pruned, err := v.listed(seal.PrunedPath(path)); err != nil || !pruned {
				return false, err
			}
		}
	}
	return n.Prunable(), nil
}
