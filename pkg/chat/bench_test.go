package chat

import "testing"

// BenchmarkRender renders every conversation by the template of Qwen3.
func BenchmarkRender(b *testing.B) {
	g := readGolden(b, "testdata/golden.json.gz")
	for _, template := range g.Templates {
		if template.Name != "qwen3" {
			continue
		}
		c := newChat(b, template.Name, template.Template, g.Date)
		var conversations []Conversation
		bytes := 0
		for i := range g.Conversations {
			if want := template.Renderings[i][1]; want.Error == "" {
				conversations = append(conversations, g.conversation(b, i))
				bytes += len(want.Text)
			}
		}
		b.SetBytes(int64(bytes))
		for b.Loop() {
			for _, conversation := range conversations {
				if _, err := c.render(conversation, RenderOptions{GenerationPrompt: true}); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(conversations)), "µs/conversation")
	}
}
