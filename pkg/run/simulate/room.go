package simulate

import "math"

// room is what of a cluster is free.
type room struct {
	whole  bool    // how many cores a node has is not known: it holds one task
	gpus   int     // free; the largest number for any
	nodes  [][]int // without GPUs, by how many of their cores are free; nil for any number
	freeOf []int   // cores of a node
	placed []int   // where a node stands among those with as many
}

func newRoom(c Cluster) *room {
	r := &room{gpus: math.MaxInt}
	if c.GPUs > 0 {
		r.gpus = c.GPUs
	}
	if c.Nodes > 0 {
		r.whole = c.NodeCPUs == 0
		cpus := max(1, c.NodeCPUs)
		r.nodes, r.freeOf, r.placed = make([][]int, cpus+1), make([]int, c.Nodes), make([]int, c.Nodes)
		for n := range c.Nodes {
			r.put(n, cpus)
		}
	}
	return r
}

// fits reports whether there is room for a task where nothing runs.
func (r *room) fits(cpus, gpus int) bool {
	if gpus > 0 {
		return gpus <= r.gpus
	}
	return r.nodes == nil || r.whole || cpus < len(r.nodes)
}

// take gives a task its place: GPUs, or cores of one node, of those that have enough
// the one with the fewest.
func (r *room) take(cpus, gpus int) (node int, ok bool) {
	switch {
	case gpus > 0:
		if ok = gpus <= r.gpus; ok {
			r.gpus -= gpus
		}
		return 0, ok
	case r.nodes == nil:
		return 0, true
	}
	if r.whole {
		cpus = 1
	}
	for free := cpus; free < len(r.nodes); free++ {
		if last := len(r.nodes[free]) - 1; last >= 0 {
			n := r.nodes[free][last]
			r.move(n, free-cpus)
			return n, true
		}
	}
	return 0, false
}

// give takes a place back.
func (r *room) give(node, cpus, gpus int) {
	switch {
	case gpus > 0:
		r.gpus += gpus
	case r.whole:
		r.move(node, 1)
	case r.nodes != nil:
		r.move(node, r.freeOf[node]+cpus)
	}
}

func (r *room) move(n, free int) {
	from := r.nodes[r.freeOf[n]]
	last := from[len(from)-1]
	from[r.placed[n]], r.placed[last] = last, r.placed[n]
	r.nodes[r.freeOf[n]] = from[:len(from)-1]
	r.put(n, free)
}

func (r *room) put(n, free int) {
	r.freeOf[n], r.placed[n] = free, len(r.nodes[free])
	r.nodes[free] = append(r.nodes[free], n)
}
