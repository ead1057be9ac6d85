package policytest

import "github.com/lathe-rl/lathe/pkg/policy"

// PrefixGroup is a shared prefix and what goes on from it, by their numbers of tokens.
type PrefixGroup struct {
	Prefix   int
	Branches []int
}

// BatchOfPrefixGroups makes a batch of prefix groups, the same with every branch spelt out as
// a sequence of its own, and where each token of the branches, and of shared prefixes on
// which nothing goes, is in it.
func BatchOfPrefixGroups(c policy.Config, seed uint64, groups ...PrefixGroup) (shared, apart policy.Batch, places [][2]int) {
	shared.Offsets, apart.Offsets = []int32{0}, []int32{0}
	lengths := []int{}
	for _, f := range groups {
		lengths = append(append(lengths, f.Prefix), f.Branches...)
	}
	plain := Batch(c, seed, lengths...)
	next := 0
	take := func(prefix int32) (ids []int32, targets []bool) {
		from, to := plain.Offsets[next], plain.Offsets[next+1]
		next++
		ids, targets = plain.TokenIDs[from:to], plain.Targets[from:to]
		shared.TokenIDs, shared.Targets = append(shared.TokenIDs, ids...), append(shared.Targets, targets...)
		shared.Offsets, shared.Prefixes = append(shared.Offsets, int32(len(shared.TokenIDs))), append(shared.Prefixes, prefix)
		return ids, targets
	}
	for _, f := range groups {
		root := int32(len(shared.Prefixes))
		prefix, wanted := take(-1)
		if len(f.Branches) > 0 {
			// Nothing of a shared prefix is learned here: apart it would be, once for each branch.
			for i := range wanted {
				shared.Targets[int(shared.Offsets[root])+i] = false
			}
		}
		spell := func(before, ids []int32, targets []bool, at int) {
			apart.TokenIDs, apart.Targets = append(apart.TokenIDs, before...), append(apart.Targets, make([]bool, len(before))...)
			for i := range ids {
				places = append(places, [2]int{at + i, len(apart.TokenIDs) + i})
			}
			apart.TokenIDs, apart.Targets = append(apart.TokenIDs, ids...), append(apart.Targets, targets...)
			apart.Offsets = append(apart.Offsets, int32(len(apart.TokenIDs)))
		}
		for range f.Branches {
			at := len(shared.TokenIDs)
			ids, targets := take(root)
			spell(prefix, ids, targets, at)
		}
		if len(f.Branches) == 0 {
			spell(nil, prefix, wanted, int(shared.Offsets[root]))
		}
	}
	return shared, apart, places
}
