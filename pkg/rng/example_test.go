package rng_test

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/rng"
)

// A draw is a function of what it is for: the order of the draws, and what else
// is drawn, change nothing.
func ExampleNew() {
	stream := rng.New(1, rng.PurposeSample, 0, "i00001", 3)
	third := stream.Float64(2)
	first := stream.Float64(0)
	again := rng.New(1, rng.PurposeSample, 0, "i00001", 3)
	fmt.Println(first == again.Float64(0), third == again.Float64(2), first == third)
	// Output: true true false
}

// A die is thrown ten times: one position of the stream each.
func ExampleStream_IntN() {
	stream := rng.New(7, rng.PurposeTest, 0, "die", 0)
	for position := range uint64(10) {
		fmt.Print(1+stream.IntN(position, 6), " ")
	}
	// Output: 6 3 6 1 3 2 5 6 4 5
}

func ExampleStream_Permutation() {
	stream := rng.New(7, rng.PurposeShuffle, 0, "batch", 0)
	fmt.Println(stream.Permutation(0, 8))
	// Output: [6 7 4 0 2 1 5 3]
}
