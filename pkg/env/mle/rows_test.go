package mle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lathe-rl/lathe/pkg/env"
	"github.com/lathe-rl/lathe/pkg/exitcode"
	"github.com/lathe-rl/lathe/pkg/internal/must"
	"github.com/lathe-rl/lathe/pkg/shard"
)

// TestRows: the environment is made again from its rows, and refuses a folder
// that has changed.
func TestRows(t *testing.T) {
	t.Parallel()
	e, of := open(t, nil)
	rows := e.Rows()
	again := must.Get(rebuild(e.settings, rows))(t)
	one := must.Get(e.Prompt(of, shard.KindInitial, env.Parent{}))(t)
	two := must.Get(again.Prompt(of, shard.KindInitial, env.Parent{}))(t)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("prompts (-first +again):\n%s", diff)
	}
	folder := e.entries[of.ID].folder
	must.Do(t, os.WriteFile(filepath.Join(folder, "public/train.csv"), []byte("id,length,kind\n1,2,b\n"), 0o644))
	changed := must.Get(rebuild(e.settings, rows))(t)
	if _, err := changed.Prompt(of, shard.KindInitial, env.Parent{}); exitcode.Code(err) != exitcode.Data || !strings.Contains(err.Error(), "is not as it was") {
		t.Errorf("a changed folder: %v", err)
	}
}

// TestRowsElsewhere: where tasks lie is not content, so that scores of the same tasks
// elsewhere can be taken. Rows of old runs have the folder in their source.
func TestRowsElsewhere(t *testing.T) {
	t.Parallel()
	e, of := open(t, nil)
	rows := e.Rows()
	elsewhere, _ := open(t, nil)
	there := elsewhere.Rows()
	one, _ := shard.ContentDigest(rows)
	two, _ := shard.ContentDigest(there)
	if rows[0].Folder == there[0].Folder || one != two {
		t.Errorf("tasks in %q are %s, and in %q %s", rows[0].Folder, one, there[0].Folder, two)
	}
	old := rows[0]
	old.Source = strings.Replace(old.Source, "{", fmt.Sprintf(`{"folder":%q,`, old.Folder), 1)
	old.Folder = ""
	again := must.Get(rebuild(e.settings, []shard.TaskRow{old}))(t)
	if found, err := again.folder(of); err != nil || found.Folder != rows[0].Folder {
		t.Errorf("a task of an old run: %v, %v", found, err)
	}
}
