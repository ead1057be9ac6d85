// Package bfcl simulates the tools of the multi-turn-base category of the
// Berkeley Function Calling Leaderboard (Patil et al.; Apache License 2.0) and
// judges tool calls as its official checker does and as ExIt's reward does.
//
// The eight API classes are written anew from their documentation, the default
// states and look-up tables of tables.json, and the traces of the reference
// implementation. What a call that succeeds returns, and the state that it
// leaves behind, are theirs to the byte; the wording of errors is ours where
// nothing documents it.
package bfcl
