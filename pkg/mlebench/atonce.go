package mlebench

import (
	"bytes"
	"context"

	"golang.org/x/sync/semaphore"
)

// memoryAtOnce bounds the bytes that the submissions take which are graded at the same
// time in this process; a larger one is graded alone. One of 3 million rows and two
// columns takes 0.7 GB, so that three are graded at once.
const memoryAtOnce = 2 << 30

// bytesOfGrade is what a cell takes at most while it is graded, its text aside: its place
// in the record and in the column, its number, and what sorting and comparing add.
const bytesOfGrade = 100

var atOnce = semaphore.NewWeighted(memoryAtOnce)

// hold waits until there is memory to grade a submission, and returns what gives it back.
func hold(submission []byte) (release func()) {
	cells := bytes.Count(submission, []byte(",")) + bytes.Count(submission, []byte("\n"))
	takes := min(memoryAtOnce, 2*int64(len(submission))+bytesOfGrade*int64(cells))
	_ = atOnce.Acquire(context.Background(), takes) // fails for a context that ends
	return func() { atOnce.Release(takes) }
}
