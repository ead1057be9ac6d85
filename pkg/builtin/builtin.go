// Package builtin is the one list of what a recipe can name: each import
// registers an environment or a curriculum.
package builtin

import (
	_ "github.com/lathe-rl/lathe/pkg/curriculum/ace"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/beliefs"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/exit"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/flipts"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/parents"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/plr"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/previous"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/restarts"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/rounds"
	_ "github.com/lathe-rl/lathe/pkg/curriculum/uniform"
	_ "github.com/lathe-rl/lathe/pkg/env/digits"
	_ "github.com/lathe-rl/lathe/pkg/env/math"
	_ "github.com/lathe-rl/lathe/pkg/env/mle"
	_ "github.com/lathe-rl/lathe/pkg/env/program"
	_ "github.com/lathe-rl/lathe/pkg/env/puzzle"
	_ "github.com/lathe-rl/lathe/pkg/env/tooluse"
)
