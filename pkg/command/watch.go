package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/lathe-rl/lathe/pkg/command/cmdline"
	"github.com/lathe-rl/lathe/pkg/measure"
	"github.com/lathe-rl/lathe/pkg/plural"
	"github.com/lathe-rl/lathe/pkg/run/drive"
	"github.com/lathe-rl/lathe/pkg/run/graph"
	"github.com/lathe-rl/lathe/pkg/run/rundir"
	"github.com/lathe-rl/lathe/pkg/run/survey"
	"github.com/lathe-rl/lathe/pkg/seal"
)

// logEvery is how often a watcher that writes to a log says where the run is.
const logEvery = 30 * time.Second

// watcher shows the progress of a run: in a terminal one line that is
// rewritten, in a log one line every so often.
type watcher struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	run      *rundir.Run
	started  time.Time
	began    time.Time // with an iteration: a warm start says nothing of their rate
	said     time.Time
	running  int
	resumed  int // iterations that were done before
	done     int // iterations done
	reward   float64
	rewarded bool
	finished int     // tasks that this process has seen end
	chunks   int     // checkpoints of the warm start among them
	warmLoss float64 // of the last step of the newest of them
	stage    string
	warming  bool // the stage is a part of the warm start
	shards   string
	most     int       // tasks that ran at once since the last line of a log
	dirty    bool      // the terminal's line is not empty
	looked   time.Time // for tasks that wait for a program
	told     time.Time // that some wait
	stop     chan struct{}
}

func newWatcher(out *os.File, r *rundir.Run) *watcher {
	w := &watcher{out: out, terminal: cmdline.IsTerminal(out), run: r, started: time.Now(), resumed: -1, stop: make(chan struct{})}
	go w.tick(w.stop)
	return w
}

// tick shows the run while nothing happens: a task may take long.
func (w *watcher) tick(stop <-chan struct{}) {
	ticker := time.NewTicker(w.pause())
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			w.mu.Lock()
			if w.stage != "" {
				w.show(false)
			}
			w.mu.Unlock()
		}
	}
}

// pause is the shortest time between two lines.
func (w *watcher) pause() time.Duration {
	if w.terminal {
		return 100 * time.Millisecond
	}
	return logEvery
}

func (w *watcher) watch(p drive.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.most = p.Running, max(w.most, p.Running)
	switch p.Event {
	case "launched":
		w.stage, w.warming = p.Task.Node.String(), p.Task.Stage == graph.StageWarm
		if count, ok := p.Survey.Counts[p.Task.Node]; ok {
			w.shards = fmt.Sprintf("%d/%d", count.Sealed, count.Total)
		}
		if w.resumed < 0 {
			w.resumed = w.iterationsDone()
			w.done = w.resumed
		}
		w.begin(p.Task.Node)
	case "done":
		w.finished++
		w.note(p.Task)
	case "retry", "failed":
		w.clear()
		word := "is retried"
		if p.Event == "failed" {
			word = "is not retried"
		}
		fmt.Fprintf(w.out, "lathe: %s %s: %s (%s); log %s\n", p.Task, word, p.Result.Cause, p.Result.Evidence, w.run.Dir.Rel(p.Result.Log))
	}
	w.show(p.Event == "finished")
}

// queue notes how many tasks Slurm holds.
func (w *watcher) queue(live int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.most = live, max(w.most, live)
}

// look shows a run that other processes advance.
func (w *watcher) look(s survey.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resumed < 0 {
		w.resumed = w.iterationsDone()
	}
	w.done = w.iterationsDone()
	if len(s.Ready) > 0 {
		w.stage, w.warming = s.Ready[0].Node.String(), s.Ready[0].Stage == graph.StageWarm
		count := s.Counts[s.Ready[0].Node]
		w.shards = fmt.Sprintf("%d/%d", count.Sealed, count.Total)
		w.begin(s.Ready[0].Node)
	}
	if w.began.IsZero() && w.done > w.resumed {
		w.began, w.resumed = time.Now(), w.done // the next ones have a rate
	}
	w.show(s.Done)
}

// begin notes when the first work of an iteration begins.
func (w *watcher) begin(n graph.Node) {
	if w.began.IsZero() && n.Stage != graph.StageWarm && n.Iteration > 0 {
		w.began = time.Now()
	}
}

// note reads what a finished task has to say.
func (w *watcher) note(t graph.Task) {
	switch t.Stage {
	case graph.StageWarm:
		made := w.run.Graph.Outputs(t)
		if m, err := seal.Read(context.Background(), made[0], seal.Options{}); err == nil && m.Metrics["optimizer_steps"] > 0 {
			w.chunks++
			w.warmLoss = m.Metrics["loss"]
		}
	case graph.StageBuffer:
		if t.Iteration == 0 {
			return
		}
		if m, err := seal.Read(context.Background(), w.run.Dir.Batch(t.Iteration), seal.Options{}); err == nil {
			w.reward, w.rewarded = m.Metrics["reward_mean"], true
		}
	case graph.StageLearn:
		w.done = max(w.done, t.Iteration)
		if t.Node == w.run.Graph.LastLearn(t.Iteration) {
			sealMetrics(context.Background(), w.run, t.Iteration)
		}
	}
}

// sealMetrics seals the metrics of iterations that have ended, the newest of which is last, so
// that whoever queries the tables finds them while the run goes on. What cannot be gathered
// now is when the report is written, which then says why.
func sealMetrics(ctx context.Context, r *rundir.Run, last int) {
	for k := last; k >= 0; k-- {
		if _, err := seal.Record(ctx, r.Dir.Metrics(k)); err == nil {
			return // and those before
		}
		if _, _, err := measure.Metrics(ctx, r, k); err != nil {
			return
		}
	}
}

func (w *watcher) iterationsDone() int { return iterationsDone(w.run) }

func iterationsDone(r *rundir.Run) int {
	done := 0
	for k := 1; k <= r.Recipe.Schedule.Iterations; k++ {
		if _, err := seal.Record(context.Background(), r.Dir.Policy(k)); err != nil {
			break
		}
		done = k
	}
	return done
}

// show prints the line, unless it is too early for a log.
func (w *watcher) show(last bool) {
	now := time.Now()
	if !last && now.Sub(w.said) < w.pause() {
		return
	}
	w.said = now
	w.tellSlow(now)
	line := w.line(now, last)
	w.most = w.running
	if w.terminal {
		fmt.Fprintf(w.out, "\r\x1b[K%s", line)
		w.dirty = true
		return
	}
	fmt.Fprintln(w.out, line)
}

// tellSlow prints which programs of the user's keep tasks waiting, once every so often.
func (w *watcher) tellSlow(now time.Time) {
	if now.Sub(w.looked) < lookEvery || now.Sub(w.told) < logEvery {
		return
	}
	w.looked = now
	waits := rundir.ReadWaits(w.run.Dir, now)
	if len(waits) == 0 {
		return
	}
	w.told = now
	w.clear()
	more := ""
	if n := len(waits) - 1; n > 0 {
		more = "; and " + plural.Count(n, "more task")
	}
	fmt.Fprintf(w.out, "lathe: %s is waiting on %s: %s%s\n", waits[0].Task, waits[0].Host, waits[0].Message, more)
}

// line is where the run is; last where nothing is left to do.
func (w *watcher) line(now time.Time, last bool) string {
	total := w.run.Recipe.Schedule.Iterations
	elapsed := now.Sub(w.started)
	running := w.running
	if !w.terminal { // when a task has just ended the next has not started
		running = max(running, w.most)
	}
	tasks := fmt.Sprintf("%d running", running)
	if w.finished > 0 {
		tasks = fmt.Sprintf("%d finished, %s", w.finished, tasks)
	}
	line := fmt.Sprintf("lathe: iteration %d/%d  %s %s  %s  %s", w.done, total, w.stage, w.shards, tasks, elapsed.Round(time.Second))
	switch {
	case last:
		line = fmt.Sprintf("lathe: iteration %d/%d  done  %d finished  %s", w.done, total, w.finished, elapsed.Round(time.Second))
	case w.warming:
		line = fmt.Sprintf("lathe: warm start  %s of %s  %s  %s", w.stage, plural.Count(w.run.Graph.WarmChunks(), "checkpoint"), tasks, elapsed.Round(time.Second))
		if w.chunks > 0 {
			left := elapsed / time.Duration(w.chunks) * time.Duration(w.run.Graph.WarmChunks()-w.chunks)
			line += fmt.Sprintf("  loss %.3f  about %s of the warm start left at most", w.warmLoss, left.Round(time.Second))
		}
	}
	if w.rewarded {
		line += fmt.Sprintf("  reward %.3f", w.reward)
	}
	if fresh := w.done - max(0, w.resumed); fresh > 0 && !w.began.IsZero() {
		per := now.Sub(w.began) / time.Duration(fresh)
		line += fmt.Sprintf("  %.1f s/iteration", per.Seconds())
		if w.done < total { // else evaluations alone are left
			line += fmt.Sprintf("  about %s left", (per * time.Duration(total-w.done)).Round(time.Second))
		}
	}
	return line
}

func (w *watcher) clear() {
	if w.dirty {
		fmt.Fprint(w.out, "\r\x1b[K")
		w.dirty = false
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		close(w.stop)
		w.stop = nil
	}
	if w.dirty {
		fmt.Fprintln(w.out)
		w.dirty = false
	}
}
