package cuda

import "github.com/lathe-rl/lathe/pkg/policy/kvcache"

// page is one page of the device's cache, by its number there.
type page = kvcache.Page[int32]

type (
	prefix = kvcache.Prefix
	prompt = kvcache.Prompt[int32]
	pool   = kvcache.Pool[int32]
)

// pagesOf is the number of pages of n tokens.
func pagesOf(n int) int { return kvcache.PagesOf(n) }

func newPool(limit int) *pool {
	return kvcache.New(limit, func(number int) int32 { return int32(number) })
}

// ids are the numbers of pages, as the device knows them.
func ids(list []*page) []int32 {
	numbers := make([]int32, len(list))
	for i, pg := range list {
		numbers[i] = pg.Content
	}
	return numbers
}
