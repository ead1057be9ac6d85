package measure

import (
	"testing"

	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestEntryResponse: entries as exit and previous name them, as ace does, and what is none.
func TestEntryResponse(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]shard.TraceName{
		"i000001-000002/3/0/4":      {InstanceID: "i000001-000002", Sample: 3},
		"i000001-000002/0":          {InstanceID: "i000001-000002"},
		"i000001-000002/2147483648": {}, // beyond 32 bits
		"draft/task":                {},
		"i000001-000002":            {},
		"":                          {},
	} {
		if got, ok := entryResponse(entry); ok != (want.InstanceID != "") || ok && got != want {
			t.Errorf("%q is of %v, %v; want %v", entry, got, ok, want)
		}
	}
}
