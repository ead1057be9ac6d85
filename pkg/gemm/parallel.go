package gemm

import (
	"sync"
	"sync/atomic"

	"github.com/lathe-rl/lathe/pkg/internal/forkjoin"
	"github.com/lathe-rl/lathe/pkg/vec"
)

// A job is work in independent tasks that write to disjoint memory.
type job interface {
	do(task int, ws *workspace)
}

// team shares the tasks of one job among goroutines.
type team struct {
	job   job
	tasks int64
	next  atomic.Int64

	// worker is the method work. Making the value once per team, not once per job, saves
	// an allocation.
	worker func(int)

	// The jobs live here so that starting one allocates nothing.
	product     product
	packing     packing
	unpacking   unpacking
	transposing transposing
	matrix      matrix
}

// teams are those without a job, see workspaces.
var teams = sync.Pool{New: func() any {
	t := new(team)
	t.worker = t.work
	return t
}}

func getTeam() *team { return teams.Get().(*team) }

// putTeam gives t back, without the operands of its last job.
func putTeam(t *team) {
	t.job, t.product, t.packing, t.unpacking, t.transposing = nil, product{}, packing{}, unpacking{}, transposing{}
	t.matrix.product = product{}
	teams.Put(t)
}

// run does all tasks on at most threads goroutines, the calling one included.
func (t *team) run(tasks, threads int) {
	t.tasks = int64(tasks)
	t.next.Store(0)
	forkjoin.Run(min(threads, tasks), t.worker)
}

func (t *team) work(int) {
	ws := getWorkspace()
	for {
		task := t.next.Add(1) - 1
		if task >= t.tasks {
			break
		}
		t.job.do(int(task), ws)
	}
	putWorkspace(ws)
}

// pack runs p on at most threads goroutines.
func pack(p packing, threads int) {
	if p.first == p.end || p.dst.k == 0 {
		return
	}
	p.level = vec.Active()
	t := getTeam()
	t.packing = p
	t.job = &t.packing
	t.run(p.tasks(), threads)
	putTeam(t)
}

// multiply runs p on at most threads goroutines.
func multiply(p product, threads int) {
	if p.m == 0 || p.n == 0 {
		return
	}
	p.level = vec.Active()
	if p.pairs && p.k > 0 && matrixUnits() {
		t := getTeam()
		t.multiplyMatrix(p, threads)
		putTeam(t)
		return
	}
	p.divide(threads)
	if p.rowTasks*p.columnTasks == 1 {
		ws := getWorkspace()
		p.compute(0, p.m, 0, p.n, ws)
		putWorkspace(ws)
		return
	}
	t := getTeam()
	t.product = p
	t.job = &t.product
	t.run(p.rowTasks*p.columnTasks, threads)
	putTeam(t)
}
