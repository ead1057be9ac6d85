package recipe

import (
	"os"
	"strings"

	"github.com/lathe-rl/lathe/pkg/config"
	"github.com/lathe-rl/lathe/pkg/exitcode"
)

// Resolve gives the files of a source as paths that can be opened. $NAME and
// ${NAME} are taken from the environment, and a relative path lies below
// folder, the folder of the recipe. A recipe keeps its paths as they were
// written, so that its digest is the same on every machine.
func (s Source) Resolve(folder string) ([]string, error) {
	paths := make([]string, len(s.Files))
	for i, file := range s.Files {
		path, err := config.ResolvePath(file, folder)
		if err != nil {
			return nil, err
		}
		paths[i] = path
	}
	return paths, nil
}

// Resolve gives the policy's folder as a path that can be opened, by the same
// rules as [Source.Resolve]. It is empty for a policy made by the run.
func (p Policy) Resolve(folder string) (string, error) {
	if p.Path == "" {
		return "", nil
	}
	return config.ResolvePath(p.Path, folder)
}

// Resolve gives the folder of BFCL's files, the file of its halves and the file
// of one's own functions as paths that can be opened, by the same rules as
// [Source.Resolve]; empty for none.
func (u *ToolUse) Resolve(folder string) (bfcl, halves, functions string, err error) {
	if u.BFCL != "" {
		if bfcl, err = config.ResolvePath(u.BFCL, folder); err != nil {
			return "", "", "", err
		}
		if u.Halves != "" {
			if halves, err = config.ResolvePath(u.Halves, bfcl); err != nil {
				return "", "", "", err
			}
		}
	}
	if u.Functions != "" {
		functions, err = config.ResolvePath(u.Functions, folder)
	}
	return bfcl, halves, functions, err
}

// Resolve gives the address of the server with the environment's variables in
// it, and the server's key.
func (r *Remote) Resolve() (url, key string, err error) {
	url, missing := config.Expand(r.URL)
	if len(missing) > 0 {
		err := exitcode.Usagef("rollout.remote.url %q needs the environment variable %s, which is not set", r.URL, strings.Join(missing, " and "))
		return "", "", exitcode.WithHint(err, "export %s=http://HOST:PORT where the task runs", missing[0])
	}
	if r.APIKeyEnv != "" {
		if key = os.Getenv(r.APIKeyEnv); key == "" {
			return "", "", exitcode.Usagef("rollout.remote.api_key_env names the environment variable %s, which is not set", r.APIKeyEnv)
		}
	}
	return url, key, nil
}
