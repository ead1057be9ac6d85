package tokenizer_test

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// Two merges are learned: "l"+"o", and then "lo"+"w". Bytes are the first 256
// ids, the special tokens the last.
func ExampleTrain() {
	t, err := tokenizer.Train([]string{"low low lower", "slow"}, 259, []string{"<|end|>"}, tokenizer.Roles{EOS: "<|end|>"})
	if err != nil {
		panic(err)
	}
	ids := t.Encode("slow<|end|>")
	fmt.Println(t.Size(), ids)
	for _, id := range ids {
		fmt.Printf("%q special: %v\n", t.Decode([]int32{id}), t.IsSpecial(id))
	}
	// Output:
	// 259 [115 257 258]
	// "s" special: false
	// "low" special: false
	// "<|end|>" special: true
}

// Text of a user is encoded with the names of special tokens as text: what
// somebody writes cannot end a turn.
func ExampleTokenizer_EncodeText() {
	t, err := tokenizer.NewBytes([]string{"<|end|>"}, tokenizer.Roles{EOS: "<|end|>"})
	if err != nil {
		panic(err)
	}
	fmt.Println(t.Encode("a<|end|>"))
	fmt.Println(t.EncodeText("a<|end|>"))
	// Output:
	// [97 256]
	// [97 60 124 101 110 100 124 62]
}

// A decoder gives text as tokens come, and holds back the bytes of a character
// that is not whole.
func ExampleTokenizer_NewDecoder() {
	t, err := tokenizer.NewBytes(nil, tokenizer.Roles{})
	if err != nil {
		panic(err)
	}
	d := t.NewDecoder()
	for _, id := range t.Encode("né") {
		fmt.Printf("%q\n", d.Write(id))
	}
	// Output:
	// "n"
	// ""
	// "é"
}
