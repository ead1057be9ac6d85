//go:build ignore

// Score scores submissions as package mlebench does:
//
//	go run score.go TASK.json ANSWERS.csv SUBMISSION.csv...
//
// prints a line for each submission: its score, or why it has none. TASK.json
// holds an [mlebench.Spec].
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/lathe-rl/lathe/pkg/mlebench"
	"github.com/lathe-rl/lathe/pkg/mlebench/metric"
)

func main() {
	if err := score(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func score(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: score TASK.json ANSWERS.csv SUBMISSION.csv…")
	}
	competition, err := open(args[0], args[1])
	if err != nil {
		return err
	}
	for _, name := range args[2:] {
		submission, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if points, err := competition.Score(submission); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(points)
		}
	}
	return nil
}

func open(task, answers string) (*mlebench.Competition, error) {
	text, err := os.ReadFile(task)
	if err != nil {
		return nil, err
	}
	var spec mlebench.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("reading %s: %w", task, err)
	}
	m, err := metric.Lookup(spec.Metric)
	if err != nil {
		return nil, err
	}
	// There is no board yet; a competition asks one for the direction alone.
	scores := "rank,score\n1,1\n2,0\n"
	if m.Direction == metric.Minimize {
		scores = "rank,score\n1,0\n2,1\n"
	}
	board, err := mlebench.ReadBoard([]byte(scores))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(answers)
	if err != nil {
		return nil, err
	}
	return mlebench.Open(spec, key, board)
}
