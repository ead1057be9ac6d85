package plural

import "testing"

func TestCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n          int
		noun, want string
	}{
		{0, "task", "0 tasks"},
		{1, "task", "1 task"},
		{2, "task", "2 tasks"},
		{-1, "task", "-1 tasks"},
		{1, "policy", "1 policy"},
		{2, "policy", "2 policies"},
		{2, "day", "2 days"},
		{2, "y", "2 ys"},
	} {
		if got := Count(c.n, c.noun); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.n, c.noun, got, c.want)
		}
	}
	for part, want := range map[int]string{0: "0 of 1 shard", 1: "1 of 1 shard"} {
		if got := Of(part, 1, "shard"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Of(1, 3, "shard"); got != "1 of 3 shards" {
		t.Error(got)
	}
	if Verb(1, "is", "are") != "is" || Verb(0, "is", "are") != "are" {
		t.Error("the verb does not belong to its number")
	}
}
