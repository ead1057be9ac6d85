package math

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/env/math/answer"
	"github.com/lathe-rl/lathe/pkg/internal/must"
)

// The sets that FlipTS tests on outside of mathematics (FlipTS §4.5), in the
// layouts in which their authors give them; the rows are ours.
func TestOutOfDomainSets(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("LATHE_DATA", folder)
	for _, test := range []struct {
		name, file, content string
		want                env.Task
	}{
		{
			"gpqa-diamond", "gpqa/gpqa_diamond.csv",
			"Record ID,Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3,High-level domain\nr1,Which is a noble gas?,neon,iron,\"zinc, or so\",gold,Chemistry\n",
			env.Task{ID: "gpqa_diamond/2", Kind: "Chemistry", Question: "Which is a noble gas?\n(A) iron\n(B) gold\n(C) neon\n(D) zinc, or so", Answer: "C", Choices: []string{"iron", "gold", "neon", "zinc, or so"}},
		},
		{
			"truthfulqa", "truthfulqa/TruthfulQA.csv",
			"Type,Category,Question,Best Answer,Best Incorrect Answer,Correct Answers,Incorrect Answers,Source\nAdversarial,Myths,Is the moon cheese?,No,Yes,No; It is rock,Yes,x\n",
			env.Task{ID: "TruthfulQA/2", Kind: "Myths", Question: "Is the moon cheese?\n(A) No\n(B) Yes", Answer: "A", Choices: []string{"No", "Yes"}},
		},
		{
			"supergpqa", "supergpqa/SuperGPQA-all.jsonl",
			`{"uuid": "u1", "question": "1+1?", "options": ["1", "2", "3"], "answer": "2", "answer_letter": "B", "discipline": "Science", "difficulty": "easy"}`,
			env.Task{ID: "SuperGPQA-all/u1", Kind: "Science", Question: "1+1?\n(A) 1\n(B) 2\n(C) 3", Answer: "B", Choices: []string{"1", "2", "3"}},
		},
		{"safetybench", "safetybench/test_en.json", `[{"id": 7, "category": "Physical Health", "question": "Is bleach a drink?", "options": ["Yes.", "No."], "answer": 1}]`, env.Task{ID: "test_en/7", Kind: "Physical Health", Question: "Is bleach a drink?\n(A) Yes.\n(B) No.", Answer: "B", Choices: []string{"Yes.", "No."}}},
	} {
		path := filepath.Join(folder, test.file)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must.Do(t, os.WriteFile(path, []byte(test.content), 0o600))
		test.want.Form = answer.FormOption
		if diff := cmp.Diff([]env.Task{test.want}, loadOverlay(t, test.name).Tasks(env.Test)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
