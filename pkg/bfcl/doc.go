// Package bfcl simulates the tools of the multi-turn-base category of the
// Berkeley Function Calling Leaderboard (Patil et al.; Apache License 2.0) and
// checks tool calls as its official checker does and as ExIt's reward does.
//
// The eight API classes are written anew from their documentation, the default
// states and look-up tables of tables.json, and the traces of the reference
// implementation, and compared with bfcl-eval 2026.3.23 on random calls. Which
// calls fail, what one that succeeds returns, and the state that it leaves
// behind, are theirs; the wording of errors is ours where nothing documents it.
// Ours differ where theirs mean nothing: a tweet without mentions does not
// share its list with all others, copied folders do not share their files, a
// precision is no bool and no more than 1000 digits, and complex numbers,
// logarithms of 0 and roots of -0 are errors or 0.
package bfcl
