package math

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/config/configtest"
)

// checked is what of a recipe the checks of this environment look at.
type checked struct {
	Env        Settings `yaml:"env"`
	Data       Data     `yaml:"data"`
	Evaluation struct {
		Problems int `yaml:"problems"`
	} `yaml:"evaluation"`
}

// TestValidate: which fields are refused with what is set.
func TestValidate(t *testing.T) {
	t.Parallel()
	file := func(part string) string {
		return part + ".files.0=a.jsonl " + part + ".fields.question=q " + part + ".fields.answer=a " + part + ".fields.answer_from=text "
	}
	named := file("data.held_out.0") + "data.held_out.0.name=aime env.prompts_of.0.set=aime "
	configtest.Checks(t, func() *checked {
		return &checked{Env: *DefaultSettings(), Data: Data{Train: sums(20), Test: sums(5)}}
	}, func(r *checked, c *config.Checker) {
		validate(c, &r.Env)
		r.Data.validate(c)
		checkSetsNamed(c, &r.Env, &r.Data)
	}, map[string]string{
		"":                                        "",
		"env.max_turns=0":                         "env.max_turns",
		"env.prompts.refine=":                     "", // of one turn
		"env.prompts.refine= env.max_turns=2":     "env.prompts.refine",
		"env.prompts.refine={questoin}":           "env.prompts.refine",
		"env.prompts.system={questoin}":           "env.prompts.system",
		"env.prompts.initial=Solve":               "env.prompts.initial",
		"env.prompts.improve={instruction}":       "env.prompts.improve",
		"env.prompts.diverge={previous_response}": "env.prompts.diverge",
		// Prompts of a set; an empty one is that of all sets.
		named:                                    "",
		named + "env.prompts_of.0.initial=Solve": "env.prompts_of.0.initial",
		named + "env.prompts_of.0.improve={question}":                    "env.prompts_of.0.improve",
		named + "env.prompts_of.0.improve={question}{previous_response}": "",
		named + "env.prompts_of.0.diverge={previous_response}":           "env.prompts_of.0.diverge",
		named + "env.prompts_of.0.system={questoin}":                     "env.prompts_of.0.system",
		named + "env.prompts_of.0.refine={questoin}":                     "env.prompts_of.0.refine",
		named + "env.prompts_of.1.set=aime":                              "env.prompts_of.1.set",
		"env.prompts_of.0.set=aime":                                      "env.prompts_of.0.set",
		named + file("data.held_out.1") + "data.held_out.1.name=aime":    "data.held_out.1.name",
		// Problems, and how many of them are held out.
		"data.train.skip_repeated=true": "data.train.skip_repeated",
		"data.train.generate=null":      "data.train",
		"data.test.generate=null":       "data.test",
		file("data.train") + "data.test.generate=null data.train.test_share=0.5": "", // they are held out of data.train
		"data.test.generate.test_share=0.3":                                      "data.test.generate.test_share",
		"evaluation.problems=5":                                                  "",
		"evaluation.problems=6":                                                  "evaluation.problems", // 5 are generated
		file("data.test") + "evaluation.problems=6":                              "",                    // nobody knows yet
		"evaluation.problems=4 data.test.limit=3":                                "evaluation.problems",
	})
}
