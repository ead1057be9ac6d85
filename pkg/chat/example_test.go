package chat_test

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/chat"
	"github.com/lathe-rl/lathe/pkg/shard"
	"github.com/lathe-rl/lathe/pkg/tokenizer"
)

// A conversation is opened, the policy answers, and the conversation goes on:
// the tokens that were sampled are never encoded again.
func Example() {
	t, err := tokenizer.NewBytes([]string{"<|user|>", "<|assistant|>", "<|end|>"}, tokenizer.Roles{EOS: "<|end|>"})
	if err != nil {
		panic(err)
	}
	format, err := tokenizer.NewChat(t, tokenizer.ChatFormat{
		SystemPrefix: "<|user|>", SystemSuffix: "<|end|>", UserPrefix: "<|user|>", UserSuffix: "<|end|>",
		AssistantPrefix: "<|assistant|>", AssistantSuffix: "<|end|>",
	})
	if err != nil {
		panic(err)
	}
	c := chat.House(format)

	conversation := []shard.Message{{Role: "user", Content: "2+2?"}}
	prompt, err := c.Prompt(conversation)
	if err != nil {
		panic(err)
	}
	fmt.Printf("prompt:   %q\n", t.Decode(prompt))

	response := append(t.Encode("5"), c.StopTokens()...) // what the policy samples
	conversation = append(conversation, shard.Message{Role: "assistant", Content: "5"}, shard.Message{Role: "user", Content: "Are you sure?"})
	next, err := c.Continue(conversation, true)
	if err != nil {
		panic(err)
	}
	fmt.Printf("response: %q\n", t.Decode(response))
	fmt.Printf("goes on:  %q\n", t.Decode(next))
	// Output:
	// prompt:   "<|user|>2+2?<|end|><|assistant|>"
	// response: "5<|end|>"
	// goes on:  "<|user|>Are you sure?<|end|><|assistant|>"
}
