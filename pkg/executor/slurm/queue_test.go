package slurm

import "testing"

func TestParseMinutes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"30:00": 30, "1:00:00": 60, "1-00:00:00": 1440, "infinite": 0, "n/a": 0, "": 0, "-5:00": 0, "9999999-0:0:0": 0} {
		if got := ParseMinutes(text); got != want {
			t.Errorf("%q is %d minutes, want %d", text, got, want)
		}
	}
}
