package math

import (
	_ "embed"
	"io"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/dataset"
	"github.com/lathe-rl/lathe/pkg/env/math/generate"
)

//go:embed generator.go
var generatorSource string

var _ = config.Docs[generatorSettings](generatorSource)

// generatorSettings are the flags of the generator.
type generatorSettings struct {
	Kind      []string `yaml:"kind"`       // `KIND` of problem; may be repeated
	Level     []int    `yaml:"level"`      // `LEVEL` of difficulty; may be repeated
	Count     int      `yaml:"count"`      // number of problems
	TestShare float64  `yaml:"test_share"` // share of the problem space that is held out
}

// Choices lists the kinds.
func (generatorSettings) Choices(field string) []string {
	if field == "kind" {
		return generate.Kinds()
	}
	return nil
}

var generator = env.Generator{
	Summary: "seeded arithmetic problems as JSONL: {id, kind, level, question, answer}",
	Settings: func() any {
		// As many as either split has of this kind and level.
		return &generatorSettings{Kind: []string{"add"}, Level: []int{1}, Count: 20, TestShare: 0.2}
	},
	Tasks: func(settings any, split env.Split, seed uint64) ([]env.Task, error) {
		s := settings.(*generatorSettings)
		return generate.Tasks(generate.Settings{Kinds: s.Kind, Levels: s.Level, Count: s.Count, TestShare: s.TestShare}, split, seed)
	},
	Write: func(out io.Writer, tasks []env.Task) error { return dataset.Write(out, tasks) },
}
